#include "run/moving/budget.h"

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "run/moving/packing.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// The number in "... this plan needs 29 MiB (30408704 bytes)".
std::uint64_t stated_bytes(const std::string& sentence) {
  const std::size_t at = sentence.rfind('(');
  return at == std::string::npos ? 0 : std::stoull(sentence.substr(at + 1));
}

TEST(Budget, TooLittleMemoryIsRefusedAndTheStatedNeedIsEnough) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.max_memory_bytes = kMiB;
  const Error error = catch_error([&] { convert(plan, options); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_FALSE(exists(out_paths(options.out).staging));
  options.max_memory_bytes = stated_bytes(error.sentence());
  ASSERT_GT(options.max_memory_bytes, kMiB) << error.sentence();
  const RunResult result = convert(plan, options);
  EXPECT_TRUE(result.published);
  EXPECT_GT(result.peak_arena_bytes, 0U);
  EXPECT_LE(result.peak_arena_bytes, options.max_memory_bytes);
}

TEST(Budget, OneStepBelowTheNeedIsRefused) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const Budget stated = state_budget(plan, 0, 2, 0);
  const std::uint64_t need = stated.need_bytes;
  EXPECT_EQ(catch_error([&] { make_budget(plan, stated.least_bytes - kMiB, 2, 0); }).code(),
            ErrorCode::limit);
  const Budget budget = make_budget(plan, need, 2, 0);
  EXPECT_GE(budget.arena_bytes, plan.totals.largest_need_bytes);
  EXPECT_LE(budget.arena_bytes + budget.control_bytes + budget.fixed_bytes, need);
}

// `plan` says what is needed, and `convert` is another process: its heap may hold a little more.
TEST(Budget, TheStatedNeedIsEnoughForALittleMoreHeap) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  std::vector<std::unique_ptr<char[]>> more;
  for (int step = 0; step < 40; ++step) {
    const std::uint64_t need = state_budget(plan, 0, 2, 0).need_bytes;
    more.push_back(std::make_unique<char[]>(200 * 1024));
    more.back()[0] = 1;
    EXPECT_NO_THROW(make_budget(plan, need, 2, 0)) << step;
  }
}

TEST(Budget, WhatVerifyHoldsBesideIsAdded) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::uint64_t plain = state_budget(plan, 0, 2, 0).need_bytes;
  EXPECT_EQ(state_budget(plan, 0, 2, 100 * kMiB).need_bytes, plain + 100 * kMiB);
}

// Lengths and offsets of all chunks are held while a compressed output is written and published.
TEST(Budget, TheLengthsOfCompressedChunksAreCounted) {
  const TempDir dir;
  PlanOptions options = small_options();
  options.encoding.zstd_level = 1;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"), options);
  EXPECT_GE(packing_heap_bytes(plan), plan.totals.chunks * (2 * 4 + 2 * 4 + 4 + 8));
  Plan plain = plan;
  plain.options.encoding.zstd_level = 0;
  EXPECT_EQ(packing_heap_bytes(plain), 0U);
  EXPECT_EQ(state_budget(plan, 0, 2, 0).fixed_bytes - state_budget(plain, 0, 2, 0).fixed_bytes,
            packing_heap_bytes(plan));
}

// Memory beyond what helps is left to the page cache and to others.
TEST(Budget, TheArenaIsAsLargeAsItHelpsAndNoLarger) {
  const TempDir dir;
  Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::uint64_t all = 1000000 * kMiB;
  EXPECT_EQ(state_budget(plan, all, 5, 0).arena_bytes, 5 * 48 * kMiB);
  plan.totals.largest_need_bytes = 500 * kMiB;
  EXPECT_EQ(state_budget(plan, all, 5, 0).arena_bytes, 1000 * kMiB);
}

// The plan and its catalog may be a quarter of what is used: no more is known of the heap.
TEST(Budget, ALargePlanNeedsFourTimesItself) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const auto large = std::make_unique_for_overwrite<char[]>(200 * kMiB);
  large[0] = 1;
  const Budget budget = state_budget(plan, 0, 2, 0);
  EXPECT_GE(budget.least_bytes, 4 * budget.control_bytes);
}

TEST(Budget, MoreThreadsNeedMore) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  EXPECT_GT(state_budget(plan, 0, 64, 0).need_bytes, state_budget(plan, 0, 1, 0).need_bytes);
}

}  // namespace
}  // namespace hfshard
