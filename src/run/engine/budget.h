#pragma once

#include <cstdint>

#include "plan/layout/layout.h"

namespace hfshard {

/// How --max-memory is divided (design.md 7).
struct Budget {
  std::uint64_t control_bytes = 0;  ///< heap of plan and `held_bytes`
  std::uint64_t fixed_bytes = 0;    ///< stacks, libraries' data, bookkeeping of tiles
  std::uint64_t arena_bytes = 0;    ///< data plane: the rest, or enough
  std::uint64_t ahead_bytes = 0;    ///< for reading ahead, from remote sources
  std::uint64_t unpack_bytes = 0;   ///< for unpacking; the rest uses files
  std::uint64_t need_bytes = 0;     ///< --max-memory that every command accepts
  std::uint64_t least_bytes = 0;    ///< the least accepted, slightly lower
};

/// Divides `max_memory_bytes`. `held_bytes` is the heap that the run holds in addition to the plan.
/// Memory that the process holds for other purposes doesn't count. Throws: limit, naming what is
/// needed, if the largest unit doesn't fit, the control plane takes more than a quarter, or the
/// system doesn't grant the memory or the threads.
Budget make_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                   std::uint64_t held_bytes);
/// Returns the same numbers without refusing. If the budget is too small, arena_bytes is 0.
Budget state_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                    std::uint64_t held_bytes);
/// Returns the most disk for unpacked arrays that don't fit in unpack_bytes.
std::uint64_t scratch_disk_bytes(const Layout& layout, const Budget& budget) noexcept;
/// Returns the budget for two layouts whose units are read in pairs, without writing. arena_bytes
/// is for both; unpack_bytes is for each side that unpacks. `held_bytes` is as in make_budget.
/// Throws: as make_budget.
Budget make_pair_budget(const Layout& left, const Layout& right, std::uint64_t max_memory_bytes,
                        unsigned threads, std::uint64_t held_bytes = 0);
/// Returns the --max-memory that suffices for it.
std::uint64_t pair_need_bytes(const Layout& left, const Layout& right, unsigned threads,
                              std::uint64_t held_bytes);

}  // namespace hfshard
