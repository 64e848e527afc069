// A run tells what it found, what it wrote, and what it left.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "run/commit/journal.h"
#include "run/commit/staging.h"
#include "run/published.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Keeps what a run announces.
class Announced final : public Reporter {
 public:
  void resumed(const FoundWork& work) override { found = work; }
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
    begun.emplace_back(total_bytes, already_done_bytes);
  }
  void advanced(std::uint64_t bytes) override { done_bytes += bytes; }
  void note(const std::string& text) override { notes.push_back(text); }

  using Bytes = std::pair<std::uint64_t, std::uint64_t>;
  std::optional<FoundWork> found;
  std::vector<Bytes> begun;
  std::uint64_t done_bytes = 0;
  std::vector<std::string> notes;
};

class ResultsTest : public testing::Test {
 protected:
  RunResult run(const Plan& plan, const RunOptions& options) {
    heard_ = Announced();
    return run_convert(plan, format_of(plan.options().target), options, heard_, {});
  }
  RunResult finalize(const Plan& plan, const RunOptions& options) {
    heard_ = Announced();
    return run_finalize(plan, format_of(plan.options().target), options, heard_);
  }
  RunOptions worker(std::uint32_t number, std::uint32_t workers) const {
    RunOptions options = to_output(out_);
    options.worker = number;
    options.workers = workers;
    return options;
  }

  TempDir dir_;
  std::string out_ = dir_ / "out";
  Plan plan_ = small_plan(copy_fixture("qwen3", dir_ / "source"));
  std::uint64_t end_ = plan_.end_address();
  Announced heard_;
};

TEST_F(ResultsTest, OneRunWritesAllOfIt) {
  const RunResult made = run(plan_, to_output(out_));
  EXPECT_TRUE(made.published);
  EXPECT_FALSE(made.already_done);
  EXPECT_EQ(made.path, join_path(out_, "0/items"));
  EXPECT_EQ(made.output_bytes, plan_.totals().output_bytes);
  EXPECT_EQ(made.written_bytes, end_);
  EXPECT_EQ(made.skipped_bytes, 0U);
  EXPECT_EQ(made.source_bytes, plan_.totals().source_bytes);
  EXPECT_GT(made.peak_arena_bytes, 0U);
  EXPECT_GT(made.journal_records, 0U);
  EXPECT_EQ(made.root_digest.size(), 64U);
  const auto files_of = [](const std::vector<IoChoice>& choices) {
    std::uint64_t files = 0;
    for (const IoChoice& choice : choices) files += choice.files;
    return files;
  };
  EXPECT_EQ(files_of(made.reads), plan_.catalog().files.size());
  EXPECT_EQ(files_of(made.writes), plan_.data_files());
  EXPECT_FALSE(made.network.has_value());
  EXPECT_TRUE(made.awaited.empty());
  EXPECT_FALSE(heard_.found.has_value()) << "nothing was found or asked for";
  EXPECT_EQ(heard_.begun, std::vector{Announced::Bytes(end_, 0)});
  EXPECT_EQ(heard_.done_bytes, end_);
}

TEST_F(ResultsTest, AResumedRunCountsWhatItFoundApart) {
  int tiles = 0;
  const Hook fails = [&](Stage stage, const Tile&) {
    if (stage == Stage::commit && ++tiles == 30) throw std::runtime_error("planted");
  };
  EXPECT_THROW(convert(plan_, to_output(out_), fails), std::runtime_error);
  const RunResult made = run(plan_, to_output(out_));
  ASSERT_TRUE(heard_.found.has_value());
  const std::uint64_t found = heard_.found->bytes;
  EXPECT_GT(found, 0U);
  EXPECT_LT(found, end_);
  EXPECT_EQ(heard_.found->total_bytes, end_);
  EXPECT_EQ(heard_.found->workers, 1U);
  EXPECT_FALSE(heard_.found->asked);
  EXPECT_EQ(heard_.found->arrived_bytes, 0U);
  EXPECT_EQ(heard_.begun, std::vector{Announced::Bytes(end_, found)});
  EXPECT_EQ(heard_.done_bytes, end_ - found);
  EXPECT_EQ(made.skipped_bytes, found);
  EXPECT_EQ(made.written_bytes, end_ - found);
  const RunResult alone = convert(plan_, to_output(dir_ / "alone"));
  EXPECT_EQ(made.root_digest, alone.root_digest);
  EXPECT_EQ(made.output_bytes, alone.output_bytes);
}

TEST_F(ResultsTest, AFinishedOutputIsNamedAndItsLeftoversGo) {
  convert(plan_, to_output(out_));
  const OutPaths paths = out_paths(plan_, out_);
  {
    Staging left(paths, false);
    left.begin(plan_);
  }
  ASSERT_TRUE(exists(paths.staging));
  RunOptions again = to_output(out_);
  again.resume = true;
  const RunResult found = run(plan_, again);
  EXPECT_TRUE(found.already_done);
  EXPECT_FALSE(found.published);
  EXPECT_EQ(found.path, join_path(out_, "0/items"));
  EXPECT_EQ(found.output_bytes, plan_.totals().output_bytes);
  EXPECT_EQ(found.written_bytes, 0U);
  EXPECT_TRUE(heard_.begun.empty());
  EXPECT_EQ(heard_.notes.size(), 1U);
  EXPECT_FALSE(exists(paths.staging));
  // Those of another plan are another run's work.
  PlanOptions options = small_options();
  options.chunk_bytes = 128;
  {
    Staging other(paths, false);
    other.begin(small_plan(dir_ / "source", options));
  }
  EXPECT_EQ(catch_error([&] { run(plan_, again); }).code(), ErrorCode::conflict);
  EXPECT_TRUE(exists(paths.staging));
}

TEST_F(ResultsTest, AWorkerTellsItsShareAndFinalizeTheWhole) {
  std::uint64_t records = 0;
  std::uint64_t written = 0;
  for (const std::uint32_t number : {0U, 2U}) {
    const RunResult share = run(plan_, worker(number, 3));
    const ByteRange range = worker_share(plan_, number, 3);
    EXPECT_FALSE(share.published);
    EXPECT_EQ(share.root_digest, "");
    EXPECT_EQ(share.written_bytes, range.end - range.begin);
    EXPECT_EQ(heard_.begun, std::vector{Announced::Bytes(range.end - range.begin, 0)});
    EXPECT_FALSE(exists(out_));
    written += share.written_bytes;
  }
  const Error missing = catch_error([&] { finalize(plan_, to_output(out_)); });
  EXPECT_EQ(missing.code(), ErrorCode::conflict);
  EXPECT_EQ(missing.file(), out_paths(out_).staging);
  EXPECT_EQ(missing.sentence(), human_bytes(end_ - written) + " of " + human_bytes(end_) +
                                    " are missing, from data file " +
                                    std::to_string(plan_.file_at(worker_share(plan_, 1, 3).begin)) +
                                    " on");
  EXPECT_EQ(missing.hint_text(), "run the missing workers, or the convert command with --resume");
  run(plan_, worker(1, 3));
  const RunResult made = finalize(plan_, to_output(out_));
  records = made.journal_records;
  EXPECT_TRUE(made.published);
  EXPECT_GE(records, 3U);
  EXPECT_EQ(made.path, join_path(out_, "0/items"));
  EXPECT_EQ(made.output_bytes, plan_.totals().output_bytes);
  EXPECT_EQ(made.written_bytes, 0U);
  EXPECT_EQ(heard_.begun, std::vector{Announced::Bytes(end_, end_)});
  const RunResult alone = convert(plan_, to_output(dir_ / "alone"));
  EXPECT_EQ(made.root_digest, alone.root_digest);
  EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
}

TEST_F(ResultsTest, FinalizeNamesTheFirstFileIfNothingWasWritten) {
  run(plan_, worker(2, 3));
  const Error missing = catch_error([&] { finalize(plan_, to_output(out_)); });
  EXPECT_TRUE(missing.sentence().ends_with(" are missing, from data file 0 on"))
      << missing.sentence();
}

TEST_F(ResultsTest, ADiscardedWorkersOutputIsItsShare) {
  PlanOptions options = small_options();
  options.target = "null";
  const Plan plan = small_plan(dir_ / "source", options);
  RunOptions second = worker(1, 3);
  second.out.clear();
  const ByteRange share = worker_share(plan, 1, 3);
  const RunResult made = run(plan, second);
  EXPECT_FALSE(made.published);
  EXPECT_EQ(made.written_bytes, share.end - share.begin);
  EXPECT_EQ(made.output_bytes, plan.totals().output_bytes);
  EXPECT_EQ(made.source_bytes, plan.totals().source_bytes);
  EXPECT_FALSE(made.reads.empty());
  EXPECT_GT(made.peak_arena_bytes, 0U);
  EXPECT_EQ(heard_.begun, std::vector{Announced::Bytes(share.end - share.begin, 0)});
  EXPECT_EQ(heard_.done_bytes, share.end - share.begin);
}

TEST_F(ResultsTest, AStoppedRunSaysWhetherAnythingIsKept) {
  const std::atomic<bool> stop = true;
  RunOptions options = to_output(out_);
  options.stop = &stop;
  const Error nothing = catch_error([&] { run(plan_, options); });
  EXPECT_EQ(nothing.code(), ErrorCode::cancelled);
  EXPECT_EQ(nothing.sentence(), "stopped; hfshard kept nothing");
  EXPECT_EQ(nothing.file(), out_);
  EXPECT_EQ(nothing.hint_text(), "run the same command again to start over");
  run(plan_, worker(0, 2));
  const Error kept = catch_error([&] { run(plan_, options); });
  EXPECT_EQ(kept.sentence(), "stopped; hfshard kept everything written so far");
  EXPECT_EQ(kept.hint_text(),
            "run the same command again to continue, convert and link with --resume");
  PlanOptions discarded = small_options();
  discarded.target = "null";
  options.out.clear();
  const Plan plan = small_plan(dir_ / "source", discarded);
  const Error error = catch_error([&] { run(plan, options); });
  EXPECT_EQ(error.sentence(), "stopped; hfshard kept nothing");
  EXPECT_EQ(error.hint_text(), "");
}

// An output in staging is found by the share that a worker has.
TEST_F(ResultsTest, AWorkersJournalCountsForItsOwnShare) {
  run(plan_, worker(0, 2));
  const Format& target = format_of("orbax");
  EXPECT_TRUE(has_kept(plan_, target, worker(0, 3)));
  EXPECT_FALSE(has_kept(plan_, target, worker(2, 3)));
  EXPECT_TRUE(has_kept(plan_, target, to_output(out_)));
  const RunResult rest = run(plan_, worker(1, 2));
  EXPECT_FALSE(heard_.found.has_value()) << "its share was empty";
  EXPECT_EQ(rest.skipped_bytes, worker_share(plan_, 0, 2).end) << "of all journals";
}

TEST_F(ResultsTest, SharesFollowEachOtherInWholeFiles) {
  for (const std::uint32_t workers : {1U, 2U, 3U, 1000U}) {
    std::uint64_t at = 0;
    for (std::uint32_t number = 0; number < workers; ++number) {
      const ByteRange share = worker_share(plan_, number, workers);
      EXPECT_EQ(share.begin, at);
      at = share.end;
    }
    EXPECT_EQ(at, end_);
  }
}

// A wait for a network ends with this code, whether or not a stop was asked for.
TEST_F(ResultsTest, ACancelledWaitIsAStopOnlyIfOneWasAskedFor) {
  std::atomic<bool> stop = false;
  bool stops = false;
  std::uint64_t committed = 0;
  const Hook waits = [&](Stage stage, const Tile& tile) {
    if (stage != Stage::commit) return;
    if (tile.begin_address < end_ / 2) {
      committed = tile.end_address;
      return;
    }
    stop = stops;
    throw Error(ErrorCode::cancelled, "the wait ended");
  };
  RunOptions options = to_output(out_);
  EXPECT_EQ(catch_error([&] { convert(plan_, options, waits); }).sentence(), "the wait ended");
  options.stop = &stop;
  EXPECT_EQ(catch_error([&] { convert(plan_, options, waits); }).sentence(), "the wait ended");
  clean_staging(out_paths(out_));
  stops = true;
  EXPECT_EQ(catch_error([&] { convert(plan_, options, waits); }).sentence(),
            "stopped; hfshard kept everything written so far");
  const JournalState state = read_journals(out_paths(out_).staging, plan_);
  EXPECT_TRUE(state.covers(0, committed)) << "tiles that waited for their record have one";
  const Hook fails = [&](Stage /*stage*/, const Tile& /*tile*/) {
    throw Error(ErrorCode::io, "another error");
  };
  stop = false;
  const Hook stopped = [&](Stage stage, const Tile& tile) {
    stop = true;
    fails(stage, tile);
  };
  EXPECT_EQ(catch_error([&] { convert(plan_, options, stopped); }).sentence(), "another error");
}

// The first worker compares for all, and finalize does, since that one can have had no share.
TEST_F(ResultsTest, DroppedCopiesAreComparedOnceForAllWorkers) {
  const std::string source = dir_ / "copies";
  SafetensorsBuilder()
      .tensor("a", DType::u8, {4}, "aaaa")
      .tensor("b", DType::u8, {4}, "aaab")
      .write(join_path(source, "model.safetensors"));
  PlanOptions options;
  options.mapping.scheme = "hf";
  options.mapping.exclude = {"a"};
  PlanParts parts(small_plan(source, options));
  parts.model.drops.at(0).same_as = 1;
  const Plan plan = parts.build();
  EXPECT_EQ(catch_error([&] { run(plan, worker(0, 2)); }).code(), ErrorCode::bad_input);
  run(plan, worker(1, 2));
  EXPECT_EQ(catch_error([&] { finalize(plan, to_output(out_)); }).code(), ErrorCode::bad_input);
  const Error error = catch_error([&] { run(plan, to_output(dir_ / "alone")); });
  EXPECT_EQ(error.sentence(),
            "this tensor would be dropped as a copy of \"b\", but differs from it");
  EXPECT_EQ(error.tensor(), "a");
  EXPECT_EQ(error.hint_text(), "pass --drop 'a' to accept the loss");
  EXPECT_FALSE(exists(out_));
}

TEST_F(ResultsTest, EveryRunIsTimed) {
  PlanOptions discarded = small_options();
  discarded.target = "null";
  EXPECT_GT(run(small_plan(dir_ / "source", discarded), to_output("")).seconds, 0);
  EXPECT_GT(run(plan_, worker(0, 2)).seconds, 0);
  run(plan_, worker(1, 2));
  EXPECT_GT(finalize(plan_, to_output(out_)).seconds, 0);
}

}  // namespace
}  // namespace hfshard
