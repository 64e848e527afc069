#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mapping/resolve/resolve.h"
#include "ops/transfer.h"

namespace hfshard {

/// Consecutive sources of a rule that are stored alike, with their own loops.
struct AlikeSources {
  std::vector<Loop> loops;
  std::uint64_t offset = 0;  ///< of the first one, in the leaf
  std::uint64_t first = 0;   ///< its number among the sources
  std::uint64_t count = 0;
};

/// Cuts the loops of a rule into boxes whose sources have the same kind. A box is a run of one loop
/// with all inner loops. If all are alike, one box has all loops. `kinds` has each source's,
/// row-major over the loops.
std::vector<AlikeSources> alike_sources(std::span<const ResolvedLoop> loops,
                                        std::span<const std::uint32_t> kinds);

}  // namespace hfshard
