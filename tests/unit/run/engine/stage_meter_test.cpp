#include "run/engine/stage_meter.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "format/formats.h"
#include "run/check/read_back.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

using std::chrono::seconds;

class Heard final : public Reporter {
 public:
  void started(std::uint64_t total, std::uint64_t done) override {
    total_bytes = total;
    done_bytes = done;
  }
  void resumed(const FoundWork& work) override { found = work; }
  void timed(const StageTimes& now) override {
    times = now;
    timed_since = true;
  }
  void advanced(std::uint64_t bytes) override {
    EXPECT_TRUE(timed_since);
    timed_since = false;
    done_bytes += bytes;
  }
  StageTimes times;
  std::optional<FoundWork> found;
  std::uint64_t total_bytes = 0;
  std::uint64_t done_bytes = 0;
  bool timed_since = false;
};

TEST(StageMeter, DividesByThreadsWhatTheyDoBesideEachOther) {
  Reporter reporter;
  StageMeter meter(reporter, 4);
  meter.add(Busy::apply, seconds(12));
  meter.add(Busy::read, seconds(8));
  meter.add(Busy::store, seconds(4));
  meter.add(Busy::in_order, seconds(5));
  const StageTimes times = meter.times();
  EXPECT_EQ(times.read_seconds, 2);
  EXPECT_EQ(times.kernel_seconds, 1);
  EXPECT_EQ(times.write_seconds, 6);
}

TEST(StageMeter, AReporterHasWhatCameOverALinkWhileItLives) {
  struct Linked : Reporter {
    void linked(const std::function<std::uint64_t()>& bytes) override { told.push_back(bytes); }
    std::vector<std::function<std::uint64_t()>> told;
  } reporter;
  { const StageMeter near(reporter, 1); }
  EXPECT_TRUE(reporter.told.empty());
  {
    const StageMeter far(reporter, 1, [] { return std::uint64_t{7}; });
    ASSERT_EQ(reporter.told.size(), 1U);
    EXPECT_EQ(reporter.told[0](), 7U);
  }
  ASSERT_EQ(reporter.told.size(), 2U);
  EXPECT_FALSE(reporter.told[1]);
}

TEST(StageMeter, ASpanCountsWhatEndsWithAnException) {
  Reporter reporter;
  StageMeter meter(reporter, 1);
  const auto wait = [&] {
    const StageSpan span(&meter, Busy::store);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) {
    }
    throw 1;
  };
  EXPECT_THROW(wait(), int);
  EXPECT_GE(meter.times().write_seconds, 0.002);
}

TEST(StageMeter, AConversionTellsAllThreeStages) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("mixtral", dir / "source"));
  Heard heard;
  const RunResult done =
      run_convert(plan, format_of(plan.options().target), to_output(dir / "out"), heard, {});
  EXPECT_GT(heard.times.read_seconds, 0);
  EXPECT_GT(heard.times.kernel_seconds, 0);
  EXPECT_GT(heard.times.write_seconds, 0);
  // Another unit or another count of threads would be many times as large.
  EXPECT_LE(heard.times.read_seconds + heard.times.kernel_seconds, 3 * done.seconds);
  EXPECT_EQ(heard.done_bytes, heard.total_bytes);
  EXPECT_FALSE(heard.found.has_value());
}

TEST(StageMeter, AWorkersBytesAreThoseOfItsShare) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("mixtral", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 3;
  std::uint64_t together = 0;
  for (options.worker = 0; options.worker < 2; ++options.worker) {
    Heard heard;
    run_convert(plan, format_of(plan.options().target), options, heard, {});
    EXPECT_EQ(heard.done_bytes, heard.total_bytes);
    EXPECT_FALSE(heard.found.has_value()) << "another worker's work is not this one's";
    together += heard.total_bytes;
  }
  options.worker = 0;
  options.workers = 1;
  options.resume = true;
  Heard heard;
  run_convert(plan, format_of(plan.options().target), options, heard, {});
  ASSERT_TRUE(heard.found.has_value());
  EXPECT_EQ(heard.found->bytes, together);
  EXPECT_EQ(heard.found->total_bytes, plan.end_address());
  EXPECT_EQ(heard.found->workers, 2U);
  EXPECT_TRUE(heard.found->asked);
  EXPECT_EQ(heard.done_bytes, heard.total_bytes);
}

TEST(StageMeter, ARunWithNothingToResumeSaysSo) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.resume = true;
  Heard heard;
  run_convert(plan, format_of(plan.options().target), options, heard, {});
  ASSERT_TRUE(heard.found.has_value());
  EXPECT_EQ(heard.found->bytes, 0U);
}

TEST(StageMeter, VerifyingTellsReadsAndKernels) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const RunResult done = convert(plan, to_output(dir / "out"));
  const auto opened = format_of(plan.options().target).open(parent_path(done.path));
  Heard heard;
  verify_source(*opened, plan, {}, heard);
  EXPECT_GT(heard.times.read_seconds, 0);
  EXPECT_GT(heard.times.kernel_seconds, 0);
}

}  // namespace
}  // namespace hfshard
