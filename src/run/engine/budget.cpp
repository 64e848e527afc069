#include "run/engine/budget.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "run/engine/crew.h"
#include "run/engine/grant.h"
#include "run/engine/packing.h"
#include "run/engine/sources.h"
#include "run/engine/unpacked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// For libraries' writable data, oneTBB's memory, the main heap's slack, a stack of 256 KiB for the
// tool's progress, and non-heap data of libraries. Under `ulimit -d` on Debian 12, they took 11 to
// 14 MiB.
constexpr std::uint64_t kProcessBytes = 24 * kMiB;
// Per thread: 512 KiB of stack and its share of heap for the bookkeeping of tiles.
constexpr std::uint64_t kThreadBytes = kMiB;
// More in flight per thread doesn't help, since fresh pages cost more than they hide.
constexpr std::uint64_t kUsefulBytes = 44 * kMiB;
// This much does, if it leaves room for unpacking.
constexpr std::uint64_t kUnpackingBytes = 16 * kMiB;
// Per thread, for comparing without unpacking. No region waits to be written, and touching fresh
// memory costs as much as comparing.
constexpr std::uint64_t kComparingBytes = 8 * kMiB;
// For libcurl's and OpenSSL's buffers for 32 connections, a thread, and waiting requests.
constexpr std::uint64_t kNetworkBytes = 24 * kMiB;
// One gigabyte per second over 100 ms. More was slower on a fast link, since touching fresh memory
// is slow.
constexpr std::uint64_t kMostAheadBytes = 128 * kMiB;
// The need that `plan` states must suffice for a run of the same plan, whose vectors can have grown
// differently.
constexpr std::uint64_t kHeapMargin = kMiB / 4;
constexpr std::uint64_t kHeapMarginShare = 16;
// Returns useful memory for unpacking. One thread unpacks an array in one piece, and most of a
// part's time is waiting. Meanwhile the others use arrays that tiles still read, which need memory
// too.
std::uint64_t useful_unpacked_bytes(const Layout& layout) {
  std::uint64_t out = layout.totals().unpacked_bytes;
  for (const UnpackedForm& form : layout.unpacked()) {
    const TensorInfo& info = layout.catalog().tensors[form.array];
    const Grid grid = layout.catalog().grid_of(form.array);
    if (form.parted > 0 || chunk_counts(info.shape, grid.chunk).numel() == 1)
      out = std::max(out, 2 * packed_bytes(info.dtype, form.elements(info.shape)));
  }
  return round_up(out, kMiB);
}

// Returns the additional heap bytes of one of two layouts.
std::uint64_t held_beside(const Layout& one, const Layout& other) {
  const bool one_source = &one.catalog() == &other.catalog();
  return other.heap_bytes() + UnpackedArrays::heap_bytes(other) -
         (one_source ? one.model().source_heap_bytes() : 0);
}

}  // namespace

Budget state_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                    std::uint64_t held_bytes) {
  Budget budget;
  budget.control_bytes = layout.heap_bytes() + held_bytes;
  const bool far = std::ranges::count(far_files(layout.catalog()), true) > 0;
  budget.fixed_bytes = kProcessBytes + threads * kThreadBytes + packing_heap_bytes(layout) +
                       UnpackedArrays::heap_bytes(layout) + (far ? kNetworkBytes : 0);
  const std::uint64_t least = layout.totals().largest_need_bytes;
  const auto need = [&](std::uint64_t control) {
    return round_up(std::max(control + budget.fixed_bytes + least, 4 * control), kMiB);
  };
  budget.least_bytes = need(budget.control_bytes);
  budget.need_bytes =
      need(budget.control_bytes + kHeapMargin + budget.control_bytes / kHeapMarginShare);
  const std::uint64_t taken = budget.control_bytes + budget.fixed_bytes;
  const std::uint64_t useful = std::max(2 * least, threads * kUsefulBytes);
  const std::uint64_t left = max_memory_bytes > taken ? max_memory_bytes - taken : 0;
  if (far && left > least) {
    budget.ahead_bytes = std::min((left - least) / 2, kMostAheadBytes) / kMiB * kMiB;
  }
  const std::uint64_t near = left - budget.ahead_bytes;
  const std::uint64_t unpacked = useful_unpacked_bytes(layout);
  const std::uint64_t beside = near > unpacked ? near - unpacked : 0;
  budget.arena_bytes =
      std::min({near, useful, std::max({beside, 2 * least, threads * kUnpackingBytes})});
  budget.unpack_bytes = std::min(unpacked, (near - budget.arena_bytes) / kMiB * kMiB);
  return budget;
}

Budget make_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                   std::uint64_t held_bytes) {
  const Budget budget = state_budget(layout, max_memory_bytes, threads, held_bytes);
  if (max_memory_bytes < budget.least_bytes) {
    const bool fits_alone =
        state_budget(layout, max_memory_bytes, 1, held_bytes).least_bytes <= max_memory_bytes;
    throw Error(ErrorCode::limit,
                fmt::format("--max-memory {} is too small; this plan needs {} ({} bytes)",
                            human_bytes(max_memory_bytes), human_bytes(budget.need_bytes),
                            budget.need_bytes))
        .hint(fmt::format("pass --max-memory {}MiB or more{}", budget.need_bytes / kMiB,
                          fits_alone ? ", or fewer --jobs" : ""));
  }
  const std::uint64_t share = threads * (kThreadBytes - kThreadStackBytes);
  require_grant(budget.arena_bytes + budget.ahead_bytes + budget.unpack_bytes +
                    packing_heap_bytes(layout) + UnpackedArrays::heap_bytes(layout) + share +
                    kStartBytes,
                threads);
  return budget;
}

std::uint64_t scratch_disk_bytes(const Layout& layout, const Budget& budget) noexcept {
  const std::uint64_t wanted = layout.totals().unpacked_bytes;
  return wanted > budget.unpack_bytes ? wanted : 0;
}

Budget make_pair_budget(const Layout& left, const Layout& right, std::uint64_t max_memory_bytes,
                        unsigned threads, std::uint64_t held_bytes) {
  const auto held = [&](const Layout& one, const Layout& other) {
    return held_beside(one, other) + held_bytes;
  };
  const std::array budgets{make_budget(left, max_memory_bytes, threads, held(left, right)),
                           make_budget(right, max_memory_bytes, threads, held(right, left))};
  const std::uint64_t least =
      std::max(left.totals().largest_need_bytes, right.totals().largest_need_bytes);
  const std::uint64_t unpacking =  // sides
      (left.unpacked().empty() ? 0U : 1U) + (right.unpacked().empty() ? 0U : 1U);
  Budget out = budgets[0];
  out.arena_bytes = std::min(budgets[0].arena_bytes, budgets[1].arena_bytes);
  if (unpacking == 0) out.arena_bytes = std::min(out.arena_bytes, threads * kComparingBytes);
  out.arena_bytes = std::max(out.arena_bytes, least);
  out.unpack_bytes = 0;
  if (unpacking == 0) return out;
  for (const Budget& budget : budgets) {
    const std::uint64_t both = budget.arena_bytes + budget.unpack_bytes;
    const std::uint64_t rest = both > out.arena_bytes ? both - out.arena_bytes : 0;
    out.unpack_bytes = std::max(out.unpack_bytes, std::min(rest, budget.unpack_bytes) / unpacking);
  }
  return out;
}

std::uint64_t pair_need_bytes(const Layout& left, const Layout& right, unsigned threads,
                              std::uint64_t held_bytes) {
  const auto need = [&](const Layout& one, const Layout& other) {
    return state_budget(one, 0, threads, held_beside(one, other) + held_bytes).need_bytes;
  };
  return std::max(need(left, right), need(right, left));
}

}  // namespace hfshard
