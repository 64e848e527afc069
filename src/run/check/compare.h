#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/difference.h"
#include "plan/pair_layout.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"

namespace hfshard {

/// The differences between the two sides of one leaf.
struct LeafDifference {
  std::uint32_t leaf = 0;
  ElementDifferences elements;  ///< `first` is an index into the leaf
  std::vector<std::byte> left;  ///< first different element
  std::vector<std::byte> right;
  std::vector<DiffDamage> damage;  ///< of both sides, not compared
};

/// The leaves with differences.
struct CompareResult {
  std::vector<LeafDifference> leaves;
  std::uint64_t compared_bytes = 0;
};

/// Reads both sides of every leaf, unit by unit, and compares them. Memory as run_convert. Damage
/// is a result, not an error. `held_bytes`: other heap of the caller. Throws: limit, io, conflict
/// (a file changed), cancelled.
CompareResult compare_pair(const PairLayout& pair, const DiffTolerance& tolerance,
                           const RunOptions& options, Reporter& reporter,
                           std::uint64_t held_bytes = 0);

}  // namespace hfshard
