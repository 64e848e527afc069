#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "plan/compile/model.h"
#include "plan/layout/limits.h"
#include "plan/layout/split_arrays.h"
#include "plan/layout/unit.h"

namespace hfshard {

/// How a leaf reads those of its arrays that are cut into pieces.
struct SourceChoice {
  std::optional<SourcePieces> pieces;     ///< of those that it takes; nothing: none
  std::vector<std::uint32_t> taken;       ///< arrays whose pieces its units take as they come
  std::vector<std::uint32_t> refused;     ///< those that must be split, since no unit can
  std::uint64_t split_scratch_bytes = 0;  ///< beside a unit's region, to read what is split
};
SourceChoice choose_source(const Model& model, const Leaf& leaf,
                           const std::vector<const Transfer*>& transfers, const SplitArrays& split,
                           const Limits& limits);

/// Adds what a leaf refuses to the arrays that are split, which are ascending. Whether one is
/// new.
bool add_refused(const SourceChoice& choice, std::vector<std::uint32_t>& split);

}  // namespace hfshard
