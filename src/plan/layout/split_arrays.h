#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/compile/model.h"
#include "plan/layout/limits.h"
#include "plan/layout/unpacked_form.h"

namespace hfshard {

/// Arrays of a source whose pieces feed several units. Units read parts of the pieces.
struct SplitArrays {
  std::vector<UnpackedForm> unpacked;   ///< unpacked into files; ascending
  std::vector<std::uint32_t> in_place;  ///< read from stored pieces; ascending
  bool has(std::uint32_t array) const noexcept;
  bool reads_in_place(std::uint32_t array) const noexcept;
};

/// Decides how to read each of some arrays of a model's source, which are ascending. Long ones are
/// read in place, or a part at a time, if any bytes of their pieces can be read. The runs that are
/// needed together must have at least Limits::part_run_bytes.
SplitArrays split_arrays(const Model& model, std::span<const std::uint32_t> arrays,
                         const Limits& limits);

/// Returns the heap bytes that they hold (base/heap.h).
std::uint64_t heap_bytes(const SplitArrays& arrays);

}  // namespace hfshard
