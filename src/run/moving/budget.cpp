#include "run/moving/budget.h"

#include <algorithm>
#include <malloc.h>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "run/moving/grant.h"
#include "run/moving/packing.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {
constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
// Libraries' writable data, the main heap's slack, and what the C library and oneTBB keep beside
// the heap: 11 to 14 MiB were seen under `ulimit -d` on Debian 12.
constexpr std::uint64_t kProcessBytes = 24 * kMiB;
// A thread: 512 KiB of stack and its share of heap for the bookkeeping of tiles.
constexpr std::uint64_t kThreadBytes = kMiB;
// More than this in flight for each thread gains nothing: fresh pages cost more than they hide.
constexpr std::uint64_t kUsefulBytes = 48 * kMiB;
// What one command says must be enough for another one with the same plan, whose heap is not quite
// the same.
constexpr std::uint64_t kHeapMargin = kMiB / 4;
constexpr std::uint64_t kHeapMarginShare = 16;
}  // namespace

std::uint64_t heap_bytes() noexcept {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

void confine_heap() noexcept { ::mallopt(M_ARENA_MAX, 2); }

Budget state_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                    std::uint64_t extra_need_bytes) {
  Budget budget;
  budget.control_bytes = heap_bytes();
  budget.fixed_bytes = kProcessBytes + threads * kThreadBytes + packing_heap_bytes(layout);
  const std::uint64_t least = layout.totals().largest_need_bytes + extra_need_bytes;
  const auto need = [&](std::uint64_t control) {
    return round_up(std::max(control + budget.fixed_bytes + least, 4 * control), kMiB);
  };
  budget.least_bytes = need(budget.control_bytes);
  budget.need_bytes =
      need(budget.control_bytes + kHeapMargin + budget.control_bytes / kHeapMarginShare);
  const std::uint64_t taken = budget.control_bytes + budget.fixed_bytes;
  const std::uint64_t useful = std::max(2 * least, threads * kUsefulBytes);
  budget.arena_bytes = max_memory_bytes > taken ? std::min(max_memory_bytes - taken, useful) : 0;
  return budget;
}

Budget make_budget(const Layout& layout, std::uint64_t max_memory_bytes, unsigned threads,
                   std::uint64_t extra_need_bytes) {
  const Budget budget = state_budget(layout, max_memory_bytes, threads, extra_need_bytes);
  if (max_memory_bytes < budget.least_bytes) {
    throw Error(ErrorCode::limit,
                fmt::format("--max-memory {} is too small, this plan needs {} ({} bytes)",
                            human_bytes(max_memory_bytes), human_bytes(budget.need_bytes),
                            budget.need_bytes))
        .hint(fmt::format("pass --max-memory {}MiB or more", budget.need_bytes / kMiB));
  }
  require_grant(budget.control_bytes + budget.fixed_bytes + budget.arena_bytes, threads);
  return budget;
}

}  // namespace hfshard
