// The number of finite values that became infinite is reported once, for the whole output: in one
// run, resumed, in shares, and discarded.

#include <atomic>
#include <filesystem>
#include <limits>
#include <span>
#include <stdexcept>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/safetensors_builder.h"
#include "support/sizes.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kTensors = 6;
constexpr std::uint64_t kRows = 50;
constexpr std::uint64_t kCols = 33;

class OverflowCount : public testing::Test {
 protected:
  // Every seventh value is too large for f16. Infinite values don't count.
  OverflowCount() {
    SafetensorsBuilder builder;
    for (std::uint64_t tensor = 0; tensor < kTensors; ++tensor) {
      std::string bytes(kRows * kCols * 4, '\0');
      for (std::uint64_t i = 0; i < kRows * kCols; ++i) {
        const bool large = i % 7 == tensor;
        const bool infinite = i % 11 == 5;
        const float value = infinite ? std::numeric_limits<float>::infinity()
                            : large  ? -1e6F
                                     : 3.0F;
        store_le(&std::as_writable_bytes(std::span(bytes))[4 * i], value);
        wanted_ += large && !infinite;
      }
      builder.tensor("t" + std::to_string(tensor), DType::f32, {kRows, kCols}, bytes);
    }
    builder.write(dir_ / "source/model.safetensors");
  }

  Plan plan_to(const std::string& target, std::uint64_t commit_bytes = 8192) const {
    PlanOptions options = small_options();
    options.mapping.scheme = "hf";
    options.mapping.stacked = false;
    options.mapping.dtype = DType::f16;
    options.target = target;
    Limits limits = small_limits();
    limits.merge_bytes = 8192;
    limits.commit_bytes = commit_bytes;
    limits.file_min_bytes = limits.file_max_bytes = 16384;
    return small_plan(dir_ / "source", options, limits);
  }

  TempDir dir_;
  std::uint64_t wanted_ = 0;
};

TEST_F(OverflowCount, OfOneRun) {
  const Plan plan = plan_to("orbax");
  ASSERT_GT(plan.totals().units, 20U);
  EXPECT_EQ(convert(plan, to_output(dir_ / "out")).overflows, wanted_);
  EXPECT_EQ(convert(plan_to("null"), to_output("")).overflows, wanted_);
}

// A record of the journal covers many tiles.
TEST_F(OverflowCount, CoversTilesThatAreRecordedTogether) {
  const RunResult result = convert(plan_to("orbax", kMiB), to_output(dir_ / "out"));
  EXPECT_EQ(result.overflows, wanted_);
}

// A value that becomes infinite counts wherever it is: also at the ends of vectors, slices, units
// and the tensor.
TEST_F(OverflowCount, OfOneElementAtAnyBorder) {
  constexpr std::uint64_t kCount = kTensors * kRows * kCols;
  for (const std::uint64_t at :
       {0U, 1U, 15U, 16U, 2047U, 2048U, 4095U, 4096U, 8191U, 8192U, 9898U, 9899U}) {
    SCOPED_TRACE(at);
    std::string bytes(kCount * 4, '\0');
    store_le(&std::as_writable_bytes(std::span(bytes))[4 * at], 65520.0F);  // the least
    if (at > 0) store_le(&std::as_writable_bytes(std::span(bytes))[4 * at - 4], 65519.0F);
    std::filesystem::remove_all(dir_ / "source");
    SafetensorsBuilder builder;
    builder.tensor("t", DType::f32, {kCount}, bytes).write(dir_ / "source/model.safetensors");
    EXPECT_EQ(convert(plan_to("orbax"), to_output(dir_ / "at" + std::to_string(at))).overflows, 1U);
  }
}

TEST_F(OverflowCount, OfARunThatWasInterrupted) {
  const Plan plan = plan_to("orbax");
  std::atomic<int> tiles = 0;
  const Hook hook = [&](Stage stage, const Tile&) {
    if (stage == Stage::commit && ++tiles == 9) throw std::runtime_error("planted");
  };
  EXPECT_THROW(convert(plan, to_output(dir_ / "out"), hook), std::runtime_error);
  RunOptions options = to_output(dir_ / "out");
  options.resume = true;
  const RunResult result = convert(plan, options);
  EXPECT_GT(result.skipped_bytes, 0U);
  EXPECT_GT(result.written_bytes, 0U);
  EXPECT_EQ(result.overflows, wanted_);
}

TEST_F(OverflowCount, OfWorkersOneOfThemTwice) {
  const Plan plan = plan_to("orbax");
  RunOptions options = to_output(dir_ / "out");
  options.workers = 3;
  for (const std::uint32_t worker : {1U, 2U, 0U, 2U}) {
    options.worker = worker;
    convert(plan, options);
  }
  QuietReporter reporter;
  const RunResult result =
      run_finalize(plan, format_of("orbax"), to_output(dir_ / "out"), reporter);
  EXPECT_EQ(result.overflows, wanted_);
}

}  // namespace
}  // namespace hfshard
