// What is journaled, and when, decides what a resumed run believes.

#include <atomic>
#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class ResumeTest : public testing::Test {
 protected:
  // Records as large as a share: what is lost or joined wrongly is a lot.
  Plan plan() const {
    Limits limits = small_limits();
    limits.commit_bytes = std::uint64_t{1} << 30;
    limits.commit_ms = 3'600'000;
    return small_plan(source_, small_options(), limits);
  }
  JournalState journaled(const Plan& plan) const {
    return read_journals(out_paths(out_).staging, plan.id(), plan.model().digest_slots());
  }
  RunOptions resumed() const {
    RunOptions options = to_output(out_);
    options.resume = true;
    return options;
  }
  std::string against_one_run(const Plan& plan) const {
    convert(plan, to_output(dir_ / "alone"));
    return differing(tree_of(out_), tree_of(dir_ / "alone"));
  }

  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

// A record speaks of one piece without holes, so a run that passes what others did ends its own
// there: the digests of a record that spans a hole count what is in the hole twice.
TEST_F(ResumeTest, RecordsDoNotSpanWhatOthersHaveDone) {
  const Plan plan = this->plan();
  RunOptions worker = to_output(out_);
  worker.workers = 3;
  worker.worker = 1;
  convert(plan, worker);
  const JournalState before = journaled(plan);
  ASSERT_EQ(before.done.size(), 1U);
  const RunResult result = convert(plan, resumed());
  EXPECT_TRUE(result.published);
  EXPECT_EQ(result.skipped_bytes, before.done_bytes());
  EXPECT_EQ(result.written_bytes, plan.end_address() - before.done_bytes());
  EXPECT_EQ(result.journal_records, 3U);
  EXPECT_EQ(against_one_run(plan), "");
}

// Minutes of work may be waiting for their record when Ctrl-C comes.
TEST_F(ResumeTest, AnInterruptJournalsWhatIsWritten) {
  const Plan plan = this->plan();
  std::atomic<bool> stop = false;
  std::atomic<std::uint64_t> committed = 0;
  RunOptions options = to_output(out_);
  options.stop = &stop;
  const Error error = catch_error([&] {
    convert(plan, options, [&](Stage stage, const Tile& tile) {
      if (stage != Stage::commit) return;
      committed = tile.end_address;
      if (tile.begin_address > plan.end_address() / 3) stop = true;
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_GT(committed, plan.end_address() / 3);
  const JournalState state = journaled(plan);
  EXPECT_TRUE(state.covers(0, committed));
  EXPECT_FALSE(state.covers(0, plan.end_address()));
  EXPECT_EQ(convert(plan, resumed()).skipped_bytes, committed);
  EXPECT_EQ(against_one_run(plan), "");
}

}  // namespace
}  // namespace hfshard
