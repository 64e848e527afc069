#include "run/engine/leading.h"

#include <cstdint>

#include "base/coding.h"

namespace hfshard {

DataFiles::Leading leading_of(const Plan& plan, const Format& target) {
  return [&](std::uint32_t file, const ByteSink& sink) {
    if (const ArrayFiles* arrays = plan.array_files()) {
      target.write_leading(plan.model().leaves, arrays->in_file(file), sink);
    } else {
      sink(as_bytes(plan.files().leading));
    }
  };
}

void make_empty_files(const Plan& plan, DataFiles& files) {
  for (std::uint32_t file = 0; file < plan.data_files(); ++file) {
    if (plan.file_begin()[file] == plan.file_begin()[file + 1]) files.sync(file, file);
  }
}

}  // namespace hfshard
