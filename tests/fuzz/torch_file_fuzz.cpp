// Fuzzes a torch.save file. The data of its tensors must be inside it.

#include <memory>
#include <string>

#include "base/checked.h"
#include "format/torch/torch_file.h"
#include "fuzz/fuzz_target.h"
#include "support/memory_store.h"

#include "hfshard/error.h"

namespace hfshard {

void fuzz_torch_file(std::string_view bytes) {
  const auto files = std::make_shared<MemoryStore>();
  files->write("pytorch_model.bin", std::string(bytes));
  const auto file = format::torch::read_torch_file(StorePath(files, "tree/pytorch_model.bin"));
  for (const format::torch::StoredView& view : file.tensors) {
    if (view.size_bytes() == 0) continue;
    std::uint64_t end = view.begin_bytes + 1;
    for (std::size_t d = 0; d < view.units.rank(); ++d) {
      const auto step = checked_mul(view.units[d] - 1, view.strides[d]);
      HFSHARD_CHECK(step.has_value());
      const auto sum = checked_add(end, *step);
      HFSHARD_CHECK(sum.has_value());
      end = *sum;
    }
    HFSHARD_CHECK(view.begin_bytes < bytes.size() && end <= bytes.size());
  }
}

}  // namespace hfshard
