#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/compile/model.h"
#include "plan/layout/limits.h"
#include "plan/layout/unpacked_form.h"

namespace hfshard {

/// Arrays of a source whose pieces no unit can take as they come, since they feed several: units
/// read parts of them.
struct SplitArrays {
  std::vector<UnpackedForm> unpacked;   ///< of files that they are unpacked into; ascending
  std::vector<std::uint32_t> in_place;  ///< from the pieces as they are stored; ascending
  bool has(std::uint32_t array) const noexcept;
  bool reads_in_place(std::uint32_t array) const noexcept;
};

/// How each of some arrays of a model's source, which are ascending, is read. Long ones are read in
/// place, or a part at a time, where any bytes of their pieces can be read and those that are
/// wanted together are no shorter than Limits::part_run_bytes.
SplitArrays split_arrays(const Model& model, std::span<const std::uint32_t> arrays,
                         const Limits& limits);

/// Heap that they hold (base/heap.h).
std::uint64_t heap_bytes(const SplitArrays& arrays);

}  // namespace hfshard
