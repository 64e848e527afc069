// `model.safetensors.index.json`: the files that it names are below its own directory.

#include <memory>
#include <string>

#include "format/safetensors/hf_index.h"
#include "fuzz/fuzz_target.h"
#include "support/memory_store.h"

#include "hfshard/error.h"

namespace hfshard {

void fuzz_hf_index(std::string_view bytes) {
  const auto files = std::make_shared<MemoryStore>();
  files->write(format::safetensors::kIndexName, std::string(bytes));
  const auto index = format::safetensors::read_hf_index(
      StorePath(files, std::string("tree/") + format::safetensors::kIndexName));
  for (const std::string& file : index.files) {
    HFSHARD_CHECK(!file.empty() && !file.starts_with('/'));
    HFSHARD_CHECK(("/" + file + "/").find("/../") == std::string::npos);
  }
  for (const auto& [name, file] : index.tensors) HFSHARD_CHECK(file < index.files.size());
}

}  // namespace hfshard
