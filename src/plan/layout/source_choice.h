#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/compile/model.h"
#include "plan/layout/limits.h"
#include "plan/layout/split_arrays.h"
#include "plan/layout/unit.h"

namespace hfshard {

/// How a leaf reads its arrays that are cut into pieces.
struct SourceChoice {
  std::optional<SourcePieces> pieces;     ///< of the taken arrays, if any
  std::vector<std::uint32_t> taken;       ///< arrays read piece by piece
  std::vector<std::uint32_t> refused;     ///< arrays that must be split
  std::uint64_t split_scratch_bytes = 0;  ///< to read split arrays
};
SourceChoice choose_source(const Model& model, const Leaf& leaf,
                           const std::vector<const Transfer*>& transfers, const SplitArrays& split,
                           const Limits& limits);

/// Adds the refused arrays to those that are split, which are ascending. Returns whether one is
/// new.
bool add_refused(const SourceChoice& choice, std::vector<std::uint32_t>& split);

}  // namespace hfshard
