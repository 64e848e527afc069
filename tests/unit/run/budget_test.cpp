#include "run/budget.h"

#include <gtest/gtest.h>

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
  EXPECT_FALSE(exists(out_paths(options.out, 0).staging));
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
  const std::uint64_t need = state_budget(plan, 0, 2, 0).need_bytes;
  EXPECT_EQ(catch_error([&] { make_budget(plan, need - kMiB, 2, 0); }).code(), ErrorCode::limit);
  const Budget budget = make_budget(plan, need, 2, 0);
  EXPECT_GE(budget.arena_bytes, plan.totals.largest_need_bytes);
  EXPECT_LE(budget.arena_bytes + budget.control_bytes + budget.fixed_bytes, need);
}

TEST(Budget, WhatVerifyHoldsBesideIsAdded) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::uint64_t plain = state_budget(plan, 0, 2, 0).need_bytes;
  EXPECT_EQ(state_budget(plan, 0, 2, 100 * kMiB).need_bytes, plain + 100 * kMiB);
}

TEST(Budget, MoreThreadsNeedMore) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  EXPECT_GT(state_budget(plan, 0, 64, 0).need_bytes, state_budget(plan, 0, 1, 0).need_bytes);
}

}  // namespace
}  // namespace hfshard
