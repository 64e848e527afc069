#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/difference.h"
#include "plan/pair_layout.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"

namespace hfshard {

/// What comparing the two sides of one leaf found.
struct LeafDifference {
  std::uint32_t leaf = 0;
  ElementDifferences elements;  ///< `first` is an index into the leaf
  std::vector<std::byte> left;  ///< the first element that differs, in the leaf's dtype
  std::vector<std::byte> right;
  std::vector<DiffDamage> damage;  ///< of both sides; what it hit was not compared
};

/// What comparing found, by leaf; leaves without differences are not in it.
struct CompareResult {
  std::vector<LeafDifference> leaves;
  std::uint64_t compared_bytes = 0;
};

/// Reads both sides of every leaf, unit by unit, and compares them. Memory as run_convert. Damage
/// is found, not thrown. Throws: limit, io, conflict (a file changed), cancelled.
CompareResult compare_pair(const PairLayout& pair, const DiffTolerance& tolerance,
                           const RunOptions& options, Reporter& reporter);

}  // namespace hfshard
