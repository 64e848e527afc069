#include "run/commit/unfinished.h"

#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "run/commit/journal.h"
#include "run/commit/recover.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "unit/run/commit/staging_fixture.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(Unfinished, WorkersAreListedByTheirNumbers) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 11;
  for (const std::uint32_t worker : {10U, 2U, 2U}) {  // one was restarted
    options.worker = worker;
    convert(plan, options);
  }
  for (const char* other :
       {"journal.x-11.1", "journal.4", "journal.-12.1", "journal.4.1", "journal.5-x.1"})
    write_text(join_path(out_paths(options.out).staging, other), "");
  const auto found = find_unfinished(options.out);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 11U);
  EXPECT_EQ(found->shares, (std::vector<std::uint32_t>{2, 10}));
  const std::string sentence = unfinished_error(*found).sentence();
  EXPECT_TRUE(sentence.ends_with(", 2 of 11 workers have begun (2, 10)")) << sentence;
}

TEST(Unfinished, ADamagedRecordIsStillAnUnfinishedRun) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("qwen3", dir / "source"));
  RunOptions options = to_output(dir / "out");
  options.workers = 2;
  convert(plan, options);
  const std::string record = join_path(out_paths(options.out).staging, kPlanRecordName);
  {
    const SyscallFault fault("pread", 1, EIO);
    EXPECT_EQ(catch_error([&] { find_unfinished(options.out); }).code(), ErrorCode::io);
  }
  write_text(record, "{");
  const auto found = find_unfinished(options.out);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->workers, 2U);
  EXPECT_EQ(found->source, "");
}

TEST_F(StagingTest, AnUnfinishedRunIsFoundByItsOutputItsStepAndItsStaging) {
  const Plan plan = small_plan(source_, options_of_step(7));
  leave_halfway(plan, out_);
  const OutPaths paths = out_paths(out_);
  const std::string record = join_path(paths.staging, kPlanRecordName);
  for (const std::string& place :
       {out_, out_ + "//", join_path(out_, "7"), paths.staging, paths.tree, record}) {
    const auto found = find_unfinished(place);
    ASSERT_TRUE(found) << place;
    EXPECT_EQ(found->staging, paths.staging) << place;
    EXPECT_EQ(found->out, out_) << place;
    EXPECT_EQ(found->source, source_);
    EXPECT_EQ(found->step, 7U);
    EXPECT_EQ(found->workers, 1U);
    EXPECT_EQ(found->shares, std::vector<std::uint32_t>{0});
    EXPECT_GT(found->done_bytes, 0U);
    EXPECT_EQ(found->done_bytes, read_journals(paths.staging, plan).done_bytes());
    EXPECT_FALSE(found->links);
    EXPECT_FALSE(found->goes_on);
  }
  EXPECT_FALSE(find_unfinished(dir_ / "other"));
  EXPECT_FALSE(find_unfinished(join_path(out_, "7/items")));
  const Staging held(paths, false);
  EXPECT_TRUE(find_unfinished(out_).value().goes_on);
}

// The output whose step is written again is complete.
TEST_F(StagingTest, AStepThatStandsIsNotUnfinished) {
  const Plan plan = small_plan(source_, options_of_step(7));
  convert(plan, to_output(out_));
  RunOptions again = to_output(out_);
  again.overwrite = true;
  again.workers = 2;
  convert(plan, again);
  EXPECT_TRUE(find_unfinished(out_));
  EXPECT_TRUE(find_unfinished(join_path(out_, "8")));
  EXPECT_FALSE(find_unfinished(join_path(out_, "7")));
}

TEST_F(StagingTest, StagingIsKnownByItsNameAndItsRecord) {
  leave_halfway(small_plan(source_), out_);
  const OutPaths paths = out_paths(out_);
  for (const std::string& place : {paths.staging, paths.tree, paths.step + "/items/d"})
    EXPECT_TRUE(in_staging(place)) << place;
  EXPECT_TRUE(is_staging(paths.staging));
  EXPECT_TRUE(is_staging(paths.staging + "/."));
  EXPECT_FALSE(is_staging(paths.tree));
  for (const char* other : {"out.hfshard", ".hfshard", ".out.hfshard.old"}) {
    write_text(join_path(dir_ / other, kPlanRecordName), "{}");
    EXPECT_FALSE(in_staging(dir_ / other)) << other;
  }
  make_directories(dir_ / ".empty.hfshard");
  EXPECT_FALSE(in_staging(dir_ / ".empty.hfshard"));
  EXPECT_FALSE(in_staging(out_));
  EXPECT_FALSE(in_staging(source_));
}

Unfinished described() {
  Unfinished out;
  out.staging = "/a/.my out.hfshard";
  out.out = "/a/my out";
  out.source = "/a/my source";
  out.step = 7;
  out.done_bytes = 2048;
  out.shares = {0};
  return out;
}

TEST(UnfinishedError, SaysWhatIsDoneAndHowToGoOn) {
  Unfinished run = described();
  const Error error = unfinished_error(run);
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.file(), run.staging);
  EXPECT_EQ(error.sentence(), "the output isn't finished: 2 KiB written");
  const std::string repeat = "repeat its command with --resume: hfshard ";
  EXPECT_EQ(error.hint_text(), repeat + "convert '/a/my source' '/a/my out' ... --resume");
  EXPECT_EQ(unfinished_note(run),
            "step 7 of /a/my out isn't finished: 2 KiB written; " + error.hint_text());
  run.links = true;
  run.source.clear();
  EXPECT_EQ(unfinished_error(run).hint_text(), repeat + "link SOURCE '/a/my out' ... --resume");
}

TEST(UnfinishedError, WorkersAreNamedAndCanBeFinalized) {
  Unfinished run = described();
  run.workers = 3;
  run.shares = {0, 2};
  EXPECT_EQ(unfinished_error(run).sentence(),
            "the output isn't finished: 2 KiB written, 2 of 3 workers have begun (0, 2)");
  EXPECT_EQ(
      unfinished_error(run).hint_text(),
      "run the missing workers, then hfshard finalize '/a/my out'; or run the convert command "
      "with --resume");
  run.goes_on = true;
  EXPECT_EQ(unfinished_error(run).hint_text(), "a process is working on it; wait until it is done");
}

TEST(Unfinished, TheRootDirectoryIsNoOutput) { EXPECT_FALSE(find_unfinished("/")); }

TEST_F(StagingTest, ALinkThatHasBegunIsToldAsOne) {
  PlanOptions options = options_of_step(3);
  options.link = true;
  const Plan plan = small_plan(source_, options);
  const OutPaths paths = out_paths(plan, out_);
  Staging(paths, false).begin(plan);
  const auto found = find_unfinished(out_);
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->links);
  EXPECT_EQ(found->step, 3U);
  EXPECT_EQ(found->done_bytes, 0U);
  EXPECT_EQ(found->workers, 1U);
  EXPECT_TRUE(found->shares.empty());
  EXPECT_EQ(unfinished_error(*found).sentence(), "the output isn't finished: 0 B written");
  // Once the step has left staging, the output is complete.
  mark_publishing(paths);
  EXPECT_TRUE(find_unfinished(out_));
  make_directories(paths.out);
  rename_path(paths.step, published_step(plan, paths));
  EXPECT_FALSE(find_unfinished(out_));
}

TEST_F(StagingTest, PlacesWithoutANameOfTheirOwnHaveNoUnfinishedRun) {
  for (const char* place : {"gs://bucket/out", ".", "..", ""})
    EXPECT_FALSE(find_unfinished(place)) << place;
}

}  // namespace
}  // namespace hfshard
