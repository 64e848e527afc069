// Journal records decide what a resumed run trusts.

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "run/commit/journal.h"
#include "run/published.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

class ResumeTest : public testing::Test {
 protected:
  // Records are as large as a share, so that losing or joining one wrongly matters.
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

TEST_F(ResumeTest, OnlyAFinishedOutputOrStagingHasWork) {
  const Plan plan = this->plan();
  const Format& target = format_of("orbax");
  EXPECT_FALSE(has_kept(plan, target, resumed()));
  RunOptions worker = to_output(out_);
  worker.workers = 2;
  convert(plan, worker);
  EXPECT_TRUE(has_kept(plan, target, worker));
  worker.worker = 1;
  EXPECT_FALSE(has_kept(plan, target, worker));
  convert(plan, resumed());
  EXPECT_TRUE(has_kept(plan, target, resumed()));
  EXPECT_FALSE(has_kept(plan, target, to_output(out_)));
}

// A record covers one range without holes, so a run ends its record at others' work. The digests of
// a record across a hole would count the hole's data twice.
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

// Minutes of work can be waiting for their record when Ctrl-C comes.
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

// A record with the plan's id and a valid checksum can come from anywhere.
TEST_F(ResumeTest, TrustEndsAtARecordThatNoRunOfThePlanWrites) {
  for (const int level : {0, 1}) {
    SCOPED_TRACE(level);
    PlanOptions options = small_options();
    options.encoding.zstd_level = level;
    const Plan plan = small_plan(source_, options);
    const std::string out = dir_ / ("forged" + std::to_string(level));
    RunOptions worker = to_output(out);
    worker.workers = 2;
    convert(plan, worker);
    const std::string staging = out_paths(out).staging;
    const JournalState good = read_journals(staging, plan);
    const std::uint64_t end = plan.end_address();
    const std::uint64_t begin = good.done.back().end;
    const JournalRecord last{
        begin,
        end,
        {},
        0,
        std::vector<std::uint32_t>(plan.is_packed() ? plan.totals().chunks : 0, 1)};
    std::vector<JournalRecord> forged(9, last);
    forged[0].end = std::uint64_t{1} << 63;
    forged[1].end = UINT64_MAX;
    forged[2].begin = UINT64_MAX - 1, forged[2].end = UINT64_MAX;
    forged[3].begin = begin + 1;
    forged[4].end = end - 1;
    forged[5].digests = {{plan.model().digest_slots(), {1, 2}}};
    forged[6].digests.assign(plan.model().digest_slots() + 1, {0, {1, 2}});
    forged[7].lengths.assign(3, 5);
    forged[8].lengths.push_back(1);
    for (const JournalRecord& record : forged) {
      SCOPED_TRACE(&record - forged.data());
      const std::string journal = join_path(staging, "journal.1-2.0000");
      remove_tree(journal);
      JournalWriter(staging, plan.id(), 1, 2).append(record);
      const JournalState state = read_journals(staging, plan);
      EXPECT_EQ(state.records, good.records);
      EXPECT_EQ(state.done_bytes(), good.done_bytes());
    }
    RunOptions go_on = to_output(out);
    go_on.resume = true;
    EXPECT_TRUE(convert(plan, go_on).published);
    convert(plan, to_output(out + "-alone"));
    EXPECT_EQ(differing(tree_of(out), tree_of(out + "-alone")), "");
  }
}

// The last record of a run ends where the plan ends, and can have a digest for every slot.
TEST_F(ResumeTest, TheLastRecordCountsToo) {
  for (const int level : {0, 1}) {
    SCOPED_TRACE(level);
    PlanOptions options = small_options();
    options.encoding.zstd_level = level;
    Limits limits = small_limits();
    limits.commit_bytes = std::uint64_t{1} << 30;
    limits.commit_ms = 3'600'000;
    const Plan plan = small_plan(source_, options, limits);
    RunOptions worker = to_output(dir_ / ("workers" + std::to_string(level)));
    worker.workers = 2;
    for (worker.worker = 0; worker.worker < 2; ++worker.worker) convert(plan, worker);
    const std::string staging = out_paths(worker.out).staging;
    EXPECT_TRUE(read_journals(staging, plan).covers(0, plan.end_address()));
    JournalRecord all{0, plan.end_address(), {}, 0, {}};
    for (std::uint64_t slot = 0; slot < plan.model().digest_slots(); ++slot)
      all.digests.push_back({slot, {1, 2}});
    if (plan.is_packed()) all.lengths.assign(plan.totals().chunks, 1);
    for (const char* journal : {"journal.0-2.0000", "journal.1-2.0000"})
      remove_tree(join_path(staging, journal));
    JournalWriter(staging, plan.id(), 0, 1).append(all);
    EXPECT_EQ(read_journals(staging, plan).records, 1U);
  }
}

// Lengths with the right number, but of impossible chunks.
TEST_F(ResumeTest, TrustEndsAtLengthsThatAreNone) {
  PlanOptions options = small_options();
  options.encoding.zstd_level = 1;
  const Plan plan = small_plan(source_, options);
  convert(plan, [&] {
    RunOptions worker = to_output(out_);
    worker.workers = 2;
    worker.worker = 1;
    return worker;
  }());
  const std::string staging = out_paths(out_).staging;
  const std::uint64_t begin = read_journals(staging, plan).done.front().begin;
  const std::uint64_t chunks = plan.chunks_before(plan.unit_at(begin));
  for (const std::uint32_t length : {0U, 1U, UINT32_MAX}) {
    SCOPED_TRACE(length);
    remove_tree(join_path(staging, "journal.0-2.0000"));
    JournalWriter(staging, plan.id(), 0, 2)
        .append({0, begin, {}, 0, std::vector<std::uint32_t>(chunks, length)});
    EXPECT_EQ(read_journals(staging, plan).covers(0, begin), length == 1);
  }
}

}  // namespace
}  // namespace hfshard
