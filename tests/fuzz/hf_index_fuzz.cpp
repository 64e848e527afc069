// Fuzzes `model.safetensors.index.json`. The files that it names must be below its own directory.

#include <memory>
#include <string>

#include "format/hf_index.h"
#include "fuzz/fuzz_target.h"
#include "support/memory_store.h"

#include "hfshard/error.h"

namespace hfshard {

void fuzz_hf_index(std::string_view bytes) {
  const auto files = std::make_shared<MemoryStore>();
  files->write(format::kSafetensorsFiles.index(), std::string(bytes));
  const auto index = format::read_hf_index(
      StorePath(files, std::string("tree/") + format::kSafetensorsFiles.index()));
  for (const std::string& file : index.files) {
    HFSHARD_CHECK(!file.empty() && !file.starts_with('/'));
    HFSHARD_CHECK(("/" + file + "/").find("/../") == std::string::npos);
  }
  for (const auto& [name, file] : index.tensors) HFSHARD_CHECK(file < index.files.size());
}

}  // namespace hfshard
