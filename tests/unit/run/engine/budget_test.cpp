#include "run/engine/budget.h"

#include <malloc.h>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "run/engine/packing.h"
#include "run/engine/unpacked.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "unit/run/far_source.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"
#include "unit/run/way_back.h"

namespace hfshard {
namespace {

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
  EXPECT_GE(budget.arena_bytes, plan.totals().largest_need_bytes);
  EXPECT_LE(budget.arena_bytes + budget.control_bytes + budget.fixed_bytes, need);
}

// The stated need has a margin for another run of the plan, which this one doesn't need.
TEST(Budget, TheLeastMemoryIsEnough) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::uint64_t held = 16 * kMiB;
  const Budget stated = state_budget(plan, 0, 2, held);
  ASSERT_GE(stated.need_bytes, stated.least_bytes + kMiB);
  const Budget budget = make_budget(plan, stated.least_bytes, 2, held);
  EXPECT_GE(budget.arena_bytes, plan.totals().largest_need_bytes);
  const Error error = catch_error([&] { make_budget(plan, stated.least_bytes - 1, 2, held); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_NE(error.sentence().find(fmt::format("({} bytes)", stated.need_bytes)), std::string::npos)
      << error.sentence();
}

TEST(Budget, FewerJobsAreNamedOnlyIfTheyHelp) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const auto refused = [&](std::uint64_t bytes) {
    return catch_error([&] { make_budget(plan, bytes, 64, 0); });
  };
  const Budget many = state_budget(plan, 0, 64, 0);
  const std::string needed = std::to_string(many.need_bytes / kMiB);
  const Error small = refused(kMiB);
  EXPECT_EQ(small.sentence(), "--max-memory 1 MiB is too small; this plan needs " + needed +
                                  " MiB (" + std::to_string(many.need_bytes) + " bytes)");
  EXPECT_EQ(small.hint_text(), "pass --max-memory " + needed + "MiB or more");
  EXPECT_EQ(refused(state_budget(plan, 0, 1, 0).least_bytes).hint_text(),
            "pass --max-memory " + needed + "MiB or more, or fewer --jobs");
}

// The plan states its own needs, not those of the rest of the process.
TEST(Budget, TheHeapOfOthersDoesNotCount) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const Budget before = state_budget(plan, 0, 2, 0);
  const auto large = std::make_unique<char[]>(200 * kMiB);
  large[0] = 1;
  EXPECT_EQ(state_budget(plan, 0, 2, 0).control_bytes, before.control_bytes);
}

// Writes a file of so many small tensors.
void write_tensors(const std::string& path, int count) {
  SafetensorsBuilder source;
  for (int i = 0; i < count; ++i)
    source.tensor(fmt::format("model.layers.{}.some.tensor.weight", i), DType::u8, {2});
  source.write(path);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Returns the process's heap in use, to compare a plan's own numbers with malloc's.
std::uint64_t used_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(Budget, ThePlanKnowsWhatItTakes) {
  const TempDir dir;
  write_tensors(dir / "model.safetensors", 20000);
  PlanOptions options = small_options();
  options.mapping.scheme = "hf";
  for (const bool compresses : {false, true}) {
    options.encoding.zstd_level = compresses ? 1 : 0;
    small_plan(dir.path(), options);  // allocates what is made once
    const std::uint64_t before = used_bytes();
    const Plan plan = small_plan(dir.path(), options);
    const auto used = static_cast<double>(used_bytes() - before);
    EXPECT_GT(used, 8e6);
    EXPECT_GE(static_cast<double>(plan.heap_bytes()), 0.99 * used);
    EXPECT_LE(static_cast<double>(plan.heap_bytes()), 1.05 * used);
  }
}

// Names, axes, rules, loops and stacks of a family.
TEST(Budget, ThePlanOfAFamilyKnowsWhatItTakes) {
  const TempDir dir;
  const std::string source = copy_fixture("deepseek3-fp8", dir / "source");
  small_plan(source);
  const std::uint64_t before = used_bytes();
  const Plan plan = small_plan(source);
  const auto used = static_cast<double>(used_bytes() - before);
  EXPECT_GE(static_cast<double>(plan.heap_bytes()), 0.95 * used);
  EXPECT_LE(static_cast<double>(plan.heap_bytes()), 1.1 * used);
}

TEST(Budget, ThePartsOfWhatIsUnpackedAreCounted) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan plan = way_back(dir, source);
  ASSERT_FALSE(plan.unpacked().empty());
  // Many of them, since malloc's reserve for the next block counts as used.
  struct Held {
    OpenSources sources;
    std::optional<UnpackedArrays> arrays;
  };
  constexpr std::size_t kMany = 500;
  std::vector<Held> held(kMany);
  const RunOptions options;
  const std::uint64_t before = used_bytes();
  for (Held& each : held) each.arrays.emplace(plan, std::string(), 0, each.sources, options);
  const auto used = static_cast<double>(used_bytes() - before) / kMany;
  const std::uint64_t counted = UnpackedArrays::heap_bytes(plan);
  EXPECT_GE(static_cast<double>(counted), 0.95 * used);
  EXPECT_LE(static_cast<double>(counted), 1.1 * used);
  const Plan plain = small_plan(source);
  EXPECT_EQ(state_budget(plan, 0, 2, 0).fixed_bytes - state_budget(plain, 0, 2, 0).fixed_bytes,
            counted);
}
#endif

TEST(Budget, WhatVerifyHoldsBesideIsAdded) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const Budget plain = state_budget(plan, 0, 2, 0);
  const Budget more = state_budget(plan, 0, 2, 2 * kMiB);
  EXPECT_EQ(more.control_bytes, plain.control_bytes + 2 * kMiB);
  EXPECT_GE(more.least_bytes, plain.least_bytes + 2 * kMiB);
  const std::uint64_t most = plain.least_bytes + 20 * kMiB;  // this is the limit
  EXPECT_EQ(state_budget(plan, most, 2, 2 * kMiB).arena_bytes,
            state_budget(plan, most, 2, 0).arena_bytes - 2 * kMiB);
}

// Writing and publishing a compressed output holds lengths and offsets of all chunks.
TEST(Budget, TheLengthsOfCompressedChunksAreCounted) {
  const TempDir dir;
  PlanOptions options = small_options();
  options.encoding.zstd_level = 1;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"), options);
  EXPECT_GE(packing_heap_bytes(plan), plan.totals().chunks * (2 * 4 + 2 * 4 + 4 + 8));
  PlanParts parts(plan);
  parts.packed = false;
  const Plan plain = parts.build();
  EXPECT_EQ(packing_heap_bytes(plain), 0U);
  EXPECT_EQ(state_budget(plan, 0, 2, 0).fixed_bytes - state_budget(plain, 0, 2, 0).fixed_bytes,
            packing_heap_bytes(plan));
}

Plan with_scratch(const Plan& plan, std::uint64_t bytes) {
  PlanParts large(plan);
  large.cut.units = {};
  for (std::size_t leaf = 0; leaf < plan.units().size(); ++leaf) {
    UnitForm unit = plan.units()[leaf];
    unit.scratch_bytes = bytes - unit.region_bytes();
    large.cut.units.push_back(unit);
  }
  return large.build();
}

// Memory that wouldn't help is left to the page cache and to others.
TEST(Budget, TheArenaIsAsLargeAsItHelpsAndNoLarger) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const std::uint64_t all = 1000000 * kMiB;
  EXPECT_EQ(state_budget(plan, all, 5, 0).arena_bytes, 5 * 44 * kMiB);
  EXPECT_EQ(state_budget(with_scratch(plan, 500 * kMiB), all, 5, 0).arena_bytes, 1000 * kMiB);
}

// One thread unpacks, so the arrays of the current and the next tiles exist at the same time. The
// arena gives up memory for them.
TEST(Budget, TwoArraysAreUnpackedWhereTheyFit) {
  const TempDir dir;
  const Plan plan = way_back(dir, copy_fixture("qwen3", dir / "source"));
  ASSERT_GT(plan.totals().unpacked_bytes, 0U);  // stacks in one frame
  const std::uint64_t two = round_up(2 * plan.totals().unpacked_bytes, kMiB);
  const Budget none = state_budget(plan, 0, 4, 0);
  const auto with = [&](std::uint64_t left) {
    return state_budget(plan, none.control_bytes + none.fixed_bytes + left, 4, 0);
  };
  EXPECT_EQ(with(two + 500 * kMiB).arena_bytes, 4 * 44 * kMiB);
  EXPECT_EQ(with(two + 500 * kMiB).unpack_bytes, two);
  EXPECT_EQ(with(two + 100 * kMiB).arena_bytes, 100 * kMiB);
  EXPECT_EQ(with(two + 100 * kMiB).unpack_bytes, two);
  EXPECT_EQ(with(65 * kMiB).arena_bytes, 64 * kMiB);
  EXPECT_EQ(with(65 * kMiB).unpack_bytes, kMiB);
  EXPECT_EQ(with(50 * kMiB).arena_bytes, 50 * kMiB);
  EXPECT_EQ(with(50 * kMiB).unpack_bytes, 0U);
}

// An array is in memory or in a file, never in both.
TEST(Budget, AnArrayThatDoesNotFitInMemoryTakesItsWholeSizeOnDisk) {
  const TempDir dir;
  const Plan plan = way_back(dir, copy_fixture("qwen3", dir / "source"));
  const std::uint64_t whole = plan.totals().unpacked_bytes;
  ASSERT_GT(whole, 1U);
  Budget budget;
  for (const std::uint64_t memory : {std::uint64_t{0}, std::uint64_t{1}, whole - 1}) {
    budget.unpack_bytes = memory;
    EXPECT_EQ(scratch_disk_bytes(plan, budget), whole) << memory;
  }
  budget.unpack_bytes = whole;
  EXPECT_EQ(scratch_disk_bytes(plan, budget), 0U);
}

// Two layouts whose units are read in pairs share one arena. Arrays that a side can't unpack in it
// have their own memory.
TEST(Budget, TwoLayoutsShareOne) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan coded = way_back(dir, source);
  const Plan plain = small_plan(source, {}, Limits{});
  const Budget alone = make_pair_budget(plain, plain, 512 * kMiB, 2);
  EXPECT_EQ(alone.unpack_bytes, 0U);
  EXPECT_EQ(alone.arena_bytes, 2 * 8 * kMiB);
  const Budget one = make_pair_budget(coded, plain, 512 * kMiB, 2);
  EXPECT_GE(one.unpack_bytes, coded.totals().unpacked_bytes);
  const Budget other = make_pair_budget(plain, coded, 512 * kMiB, 2);
  EXPECT_EQ(other.unpack_bytes, one.unpack_bytes);
  const Budget both = make_pair_budget(coded, coded, 512 * kMiB, 2);
  EXPECT_EQ(both.unpack_bytes, one.unpack_bytes / 2);
  EXPECT_EQ(catch_error([&] { make_pair_budget(coded, plain, kMiB, 2); }).code(), ErrorCode::limit);
}

TEST(Budget, TheStatedNeedOfTwoLayoutsIsEnoughWhicheverIsLarger) {
  const TempDir dir;
  const Plan plain = small_plan(copy_fixture("qwen3", dir / "source"));
  const Plan large = with_scratch(plain, 500 * kMiB);
  const std::uint64_t need = pair_need_bytes(large, plain, 2, 0);
  EXPECT_NO_THROW(make_pair_budget(large, plain, need, 2));
  EXPECT_EQ(pair_need_bytes(plain, large, 2, 0), need);
}

// The plan and its catalog may be a quarter of the memory. Nothing else is known about the heap.
TEST(Budget, ALargePlanNeedsFourTimesItself) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const Budget budget = state_budget(plan, 0, 2, 200 * kMiB);
  EXPECT_GE(budget.least_bytes, 4 * budget.control_bytes);
}

TEST(Budget, MoreThreadsNeedMore) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  EXPECT_GT(state_budget(plan, 0, 64, 0).need_bytes, state_budget(plan, 0, 1, 0).need_bytes);
}

// A network takes memory of its own, and what is read ahead gets half of what isn't needed.
TEST(Budget, BytesOfANetworkAreReadAhead) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3", dir / "source");
  const Plan near = small_plan(source);
  const Plan far = make_plan(StorePath{std::make_shared<FarStore>(), source}, small_options(),
                             format_of("orbax"), small_limits());
  const Budget none = state_budget(far, 0, 4, 0);
  EXPECT_EQ(none.fixed_bytes, state_budget(near, 0, 4, 0).fixed_bytes + 24 * kMiB);
  EXPECT_EQ(none.ahead_bytes, 0U);
  const std::uint64_t least = far.totals().largest_need_bytes;
  const auto with = [&](std::uint64_t left) {
    return state_budget(far, none.control_bytes + none.fixed_bytes + left, 4, 0);
  };
  EXPECT_EQ(with(least).ahead_bytes, 0U);
  EXPECT_EQ(with(least + 2 * kMiB - 1).ahead_bytes, 0U) << "whole mebibytes";
  EXPECT_EQ(with(least + 2 * kMiB).ahead_bytes, kMiB);
  EXPECT_EQ(with(least + 2 * kMiB).arena_bytes, least + kMiB);
  EXPECT_EQ(with(least + 41 * kMiB).ahead_bytes, 20 * kMiB);
  EXPECT_EQ(with(2000 * kMiB).ahead_bytes, 128 * kMiB);
  EXPECT_EQ(with(2000 * kMiB).arena_bytes, 4 * 44 * kMiB);
  EXPECT_EQ(state_budget(near, 2000 * kMiB, 4, 0).ahead_bytes, 0U);
}

// Two layouts of one source hold its catalog once.
TEST(Budget, TheHeapOfAPairCountsItsSourceOnce) {
  const TempDir dir;
  write_tensors(dir / "model.safetensors", 5000);
  PlanOptions options = small_options();
  options.mapping.scheme = "hf";
  const Plan one = small_plan(dir.path(), options);
  const Plan other = small_plan(dir.path(), options);
  const std::uint64_t shared = one.model().source_heap_bytes();
  ASSERT_GT(shared, kMiB / 4);
  const auto needs = [&](const Plan& left, const Plan& right, std::uint64_t beside) {
    return pair_need_bytes(left, right, 2, 200 * kMiB) ==
           state_budget(left, 0, 2, beside + 200 * kMiB).need_bytes;
  };
  const std::uint64_t held = other.heap_bytes() + UnpackedArrays::heap_bytes(other);
  EXPECT_TRUE(needs(one, other, held));
  EXPECT_FALSE(needs(one, other, held - shared));
  EXPECT_TRUE(needs(one, one, held - shared));
}

}  // namespace
}  // namespace hfshard
