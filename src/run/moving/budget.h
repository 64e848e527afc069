#pragma once

#include <cstdint>

#include "plan/layout/layout.h"

namespace hfshard {

/// How --max-memory is divided (design.md 7, memory is a theorem).
struct Budget {
  std::uint64_t control_bytes = 0;  ///< heap of the plan, and of what is held beside it
  std::uint64_t fixed_bytes = 0;    ///< stacks, libraries' data, bookkeeping of tiles in flight
  std::uint64_t arena_bytes = 0;    ///< for the data plane: what is left, or as much as is useful
  std::uint64_t ahead_bytes = 0;    ///< for what is read ahead of need, of sources that are far
  std::uint64_t unpack_bytes = 0;   ///< for what is unpacked; what does not fit lies in files
  std::uint64_t need_bytes = 0;     ///< --max-memory that is accepted by every command
  std::uint64_t least_bytes = 0;    ///< below this one refuses: a little less
};

/// Divides `max_memory_bytes`; `held_bytes` is the heap that the run holds beside the plan. What
/// the process holds for others does not count. Throws: limit, naming what is needed, if the
/// largest unit does not fit, if the control plane takes more than a quarter, or if the system does
/// not grant the memory or the threads.
Budget make_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                   std::uint64_t held_bytes);
/// The same figures without refusing; arena_bytes is 0 where the budget is too small.
Budget state_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                    std::uint64_t held_bytes);
/// Disk that arrays take which are unpacked and do not fit into unpack_bytes, at most.
std::uint64_t scratch_disk_bytes(const Layout& layout, const Budget& budget) noexcept;
/// For two layouts whose units are read side by side, without writing them: arena_bytes is for
/// both, unpack_bytes is what each side has that unpacks anything. Throws as make_budget.
Budget make_pair_budget(const Layout& left, const Layout& right, std::uint64_t max_memory_bytes,
                        unsigned threads);

}  // namespace hfshard
