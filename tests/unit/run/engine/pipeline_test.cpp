#include "run/engine/pipeline.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <stdexcept>
#include <tuple>

#include <gtest/gtest.h>

#include "run/engine/cpus.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::chrono::seconds kTooLong{120};

struct Planted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

const char* name_of(Stage stage) {
  constexpr const char* kNames[] = {"admit", "apply", "place", "store", "commit"};
  return kNames[static_cast<std::size_t>(stage)];
}

// Runs the action in a thread. If a pipeline never returns, ends the test program.
template <typename Action>
void in_time(Action&& action) {
  auto done = std::async(std::launch::async, std::forward<Action>(action));
  if (done.wait_for(kTooLong) != std::future_status::ready) {
    std::fputs("the pipeline does not return\n", stderr);
    std::abort();
  }
  done.get();
}

// Waits until a number is reached. Any thread can raise it.
class Milestone {
 public:
  void reach(std::uint64_t value) {
    const std::lock_guard lock(mutex_);
    value_ = std::max(value_, value);
    changed_.notify_all();
  }
  void await(std::uint64_t value) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kTooLong, [&] { return value_ >= value; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t value_ = 0;
};

struct CountingSink final : TileSink {
  bool places() const override { return true; }
  void store(const Tile&, std::span<const std::byte>) override {}
  void commit(Tile& tile) override { committed += tile.region_bytes(); }
  std::uint64_t committed = 0;
};

class PipelineFailure : public testing::TestWithParam<Stage> {};
class ConversionFailure : public testing::TestWithParam<std::tuple<Stage, int>> {};

// There is memory for exactly one tile. While the first one is in progress, admit waits in the
// arena with the second.
TEST_P(PipelineFailure, ReturnsThoughAdmitWaitsForMemory) {
  const Stage failing = GetParam();
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  std::uint64_t most = 0;
  Tile tile;
  TileCursor measure(plan, 0, plan.end_address(), nullptr, UINT64_MAX);
  while (measure.next(tile)) most = std::max(most, tile.need_bytes);
  Arena arena(most);
  Milestone admitted;
  std::uint64_t asked = 0;
  PipelineOptions options;
  options.threads = 4;
  options.hook = [&](Stage stage, const Tile& at) {
    if (stage == Stage::admit) {
      admitted.reach(++asked);
      if (failing == Stage::admit && asked == 3) throw Planted("planted");
      return;
    }
    if (at.begin_address != 0 && failing != Stage::commit) return;
    // A tile's memory is freed after its store. So a commit can only fail while another tile is
    // held in apply.
    if (failing == Stage::commit && stage == Stage::apply && at.begin_address != 0)
      admitted.await(1000);
    if (stage != failing) return;
    admitted.await(failing == Stage::commit ? 3 : 2);
    admitted.reach(1000);
    throw Planted("planted");
  };
  CountingSink sink;
  TileCursor cursor(plan, 0, plan.end_address(), nullptr, arena.size_bytes());
  in_time([&] {
    EXPECT_THROW(run_pipeline(
                     cursor, arena, [](Tile&) {}, [](Tile&) {}, sink, options),
                 Planted);
  });
  EXPECT_LT(sink.committed, plan.end_address());
}

// The same for a whole conversion, compressed or not. After any failure, the written data stay, and
// a resumed run gives the tree of an undisturbed one.
TEST_P(ConversionFailure, LeavesAResumableConversion) {
  const TempDir dir;
  const auto [failing, level] = GetParam();
  PlanOptions options = small_options();
  options.encoding.zstd_level = level;
  options.mapping.stacked = false;
  Limits limits = small_limits();
  limits.commit_bytes = std::uint64_t{512} << 10;  // each takes two syncs
  if (level > 0) {                                 // at 4096 all chunks take the same space
    limits.alignment_bytes = 16;
    limits.merge_bytes = 1024;
    limits.file_min_bytes = limits.file_max_bytes = 8192;
    limits.commit_bytes = 8192;
  }
  const Plan plan = small_plan(copy_fixture("mixtral", dir / "source"), options, limits);
  const std::uint64_t output_bytes = convert(plan, to_output(dir / "undisturbed")).output_bytes;
  const auto wanted = tree_of(dir / "undisturbed");
  std::uint64_t resumed_past_work = 0;
  for (const std::uint64_t nth : {1U, 7U, 40U}) {
    SCOPED_TRACE(nth);
    const std::string out = dir / (std::string("out") + std::to_string(nth));
    std::atomic<std::uint64_t> seen = 0;
    const Hook hook = [&, wanted_stage = failing](Stage stage, const Tile&) {
      if (stage == wanted_stage && ++seen == nth) throw Planted("planted");
    };
    in_time([&] { EXPECT_THROW(convert(plan, to_output(out), hook), Planted); });
    EXPECT_FALSE(exists(out));
    EXPECT_TRUE(exists(out_paths(out).staging));
    RunOptions again = to_output(out);
    again.resume = true;
    const RunResult result = convert(plan, again);
    resumed_past_work += result.skipped_bytes > 0;
    EXPECT_TRUE(result.published);
    EXPECT_EQ(result.skipped_bytes + result.written_bytes, output_bytes);
    EXPECT_EQ(result.output_bytes, output_bytes);
    EXPECT_EQ(output_bytes == plan.end_address(), level == 0);
    EXPECT_EQ(differing(tree_of(out), wanted), "");
    EXPECT_FALSE(exists(out_paths(out).staging));
  }
  EXPECT_GT(resumed_past_work, 0U) << "no resumed run found finished work";
}

INSTANTIATE_TEST_SUITE_P(Stages, PipelineFailure,
                         testing::Values(Stage::admit, Stage::apply, Stage::place, Stage::store,
                                         Stage::commit),
                         [](const auto& one) { return std::string(name_of(one.param)); });
const auto form_name = [](const auto& one) {
  const auto [stage, level] = one.param;
  return std::string(name_of(stage)) + (level > 0 ? "Compressed" : "");
};
INSTANTIATE_TEST_SUITE_P(Stages, ConversionFailure,
                         testing::Combine(testing::Values(Stage::admit, Stage::apply, Stage::store,
                                                          Stage::commit),
                                          testing::Values(0, 1)),
                         form_name);
INSTANTIATE_TEST_SUITE_P(Place, ConversionFailure, testing::Values(std::tuple{Stage::place, 1}),
                         form_name);

TEST(Pipeline, AStopDrainsAndCommitsWhatWasAdmitted) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("mixtral", dir / "source"));
  convert(plan, to_output(dir / "undisturbed"));
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> admitted_bytes = 0;
  std::atomic<int> admitted = 0;
  RunOptions options = to_output(dir / "out");
  options.stop = &stop;
  const Hook hook = [&](Stage stage, const Tile& tile) {
    if (stage != Stage::admit) return;
    admitted_bytes += tile.region_bytes();
    if (++admitted == 20) stop = true;
  };
  const Error error = catch_error([&] { convert(plan, options, hook); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_NE(error.hint_text().find("--resume"), std::string::npos);
  EXPECT_FALSE(exists(dir / "out"));
  const JournalState state =
      read_journals(out_paths(dir / "out").staging, plan.id(), plan.model().digest_slots());
  EXPECT_EQ(state.done_bytes(), admitted_bytes.load());
  EXPECT_LT(state.done_bytes(), plan.end_address());
  options.stop = nullptr;
  options.resume = true;
  EXPECT_EQ(convert(plan, options).skipped_bytes, state.done_bytes());
  EXPECT_EQ(differing(tree_of(dir / "out"), tree_of(dir / "undisturbed")), "");
}

TEST(Pipeline, TilesFollowEachOtherAndStayInTheirFile) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  TileCursor cursor(plan, 0, plan.end_address(), nullptr, UINT64_MAX);
  Tile tile;
  std::uint64_t at = 0;
  std::uint64_t tiles = 0;
  while (cursor.next(tile)) {
    ++tiles;
    EXPECT_EQ(tile.begin_address, at);
    EXPECT_GE(tile.begin_address, plan.file_begin()[tile.file]);
    EXPECT_LE(tile.end_address, plan.file_begin()[tile.file + 1]);
    EXPECT_TRUE(tile.units.size() == 1 || tile.region_bytes() <= plan.limits().merge_bytes);
    at = tile.end_address;
  }
  EXPECT_EQ(at, plan.end_address());
  EXPECT_GT(tiles, 20U);
}

// Threads that wait for files are additional to those that compute.
TEST(Pipeline, HasThreadsForKernelsAndForFiles) {
  RunOptions options;
  options.io_threads = 4;
  for (const unsigned jobs : {1U, 2U, 3U}) {
    options.jobs = jobs;
    EXPECT_EQ(kernel_threads(options), jobs);
    EXPECT_EQ(pipeline_threads(options), jobs + 4);
  }
  options.jobs = 0;
  EXPECT_EQ(kernel_threads(options), usable_cpus());
  EXPECT_EQ(pipeline_threads(options), usable_cpus() + 4);
}

TEST(Pipeline, FinishedWorkIsLeftOutWholeUnitsOnly) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  const UnitRef third = plan.next(plan.next(UnitRef{}));
  const std::uint64_t begin = plan.address_of(third);
  const std::uint64_t end = plan.address_of(plan.next(third));
  JournalState done;
  done.done.push_back({begin, end, {}});
  TileCursor cursor(plan, 0, plan.end_address(), &done, UINT64_MAX);
  Tile tile;
  std::uint64_t moved = 0;
  while (cursor.next(tile)) {
    EXPECT_TRUE(tile.end_address <= begin || tile.begin_address >= end);
    moved += tile.region_bytes();
  }
  EXPECT_EQ(moved, plan.end_address() - (end - begin));
}

TEST(Pipeline, ATileEndsWhereFinishedWorkBegins) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  TileCursor whole(plan, 0, plan.end_address(), nullptr, UINT64_MAX);
  Tile merged;
  while (merged.units.size() < 3) ASSERT_TRUE(whole.next(merged));
  const std::uint64_t begin = plan.address_of(merged.units[1]);
  const std::uint64_t end = plan.address_of(merged.units[2]);
  JournalState done;
  done.done.push_back({begin, end, {}});
  TileCursor rest(plan, merged.begin_address, plan.end_address(), &done, UINT64_MAX);
  Tile tile;
  ASSERT_TRUE(rest.next(tile));
  EXPECT_EQ(tile.units, std::vector{merged.units[0]});
  EXPECT_EQ(tile.begin_address, merged.begin_address);
  EXPECT_EQ(tile.end_address, begin);
  ASSERT_TRUE(rest.next(tile));
  EXPECT_EQ(tile.begin_address, end);
  EXPECT_EQ(tile.units.front(), merged.units[2]);
}

}  // namespace
}  // namespace hfshard
