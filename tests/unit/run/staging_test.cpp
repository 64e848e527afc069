#include "run/staging.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// Starts a conversion to `out` that fails halfway, so that a staging directory stays.
void leave_halfway(const Plan& plan, const std::string& out) {
  int tiles = 0;
  const Hook hook = [&](Stage stage, const Tile&) {
    if (stage == Stage::commit && ++tiles == 10) throw std::runtime_error("planted");
  };
  EXPECT_THROW(convert(plan, to_output(out), hook), std::runtime_error);
  EXPECT_TRUE(exists(out_paths(out, 0).staging));
}

Error refused(const Plan& plan, const RunOptions& options) {
  return catch_error([&] { convert(plan, options); });
}

class StagingTest : public testing::Test {
 protected:
  TempDir dir_;
  std::string source_ = copy_fixture("qwen3", dir_ / "source");
  std::string out_ = dir_ / "out";
};

TEST_F(StagingTest, AnotherPlanIsRefusedAndTheDifferingFieldNamed) {
  leave_halfway(small_plan(source_), out_);
  const auto before = tree_of(out_paths(out_, 0).staging);
  PlanOptions other = small_options();
  other.chunk_bytes = 128;
  const Error error = refused(small_plan(source_, other), to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(error.sentence().find("options.chunk_bytes: 64 there, 128 here"), std::string::npos)
      << error.sentence();
  EXPECT_EQ(error.file(), out_paths(out_, 0).staging);
  EXPECT_EQ(differing(before, tree_of(out_paths(out_, 0).staging)), "");
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
}

TEST_F(StagingTest, AnotherMeshIsRefusedAndNamed) {
  leave_halfway(small_plan(source_), out_);
  PlanOptions other = small_options();
  other.meshes = {"fsdp=2"};
  const Error error = refused(small_plan(source_, other), to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_NE(error.sentence().find("options.mesh"), std::string::npos) << error.sentence();
}

TEST_F(StagingTest, AChangedSourceIsRefusedByName) {
  leave_halfway(small_plan(source_), out_);
  const std::string file = join_path(source_, "model-00002-of-00002.safetensors");
  const auto before = std::filesystem::last_write_time(file);
  std::filesystem::last_write_time(file, before + std::chrono::seconds(1));
  RunOptions resume = to_output(out_);
  resume.resume = true;
  const Error error = refused(small_plan(source_), resume);
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_TRUE(exists(out_paths(out_, 0).staging));
  std::filesystem::last_write_time(file, before);
  EXPECT_TRUE(convert(small_plan(source_), resume).published);
}

TEST_F(StagingTest, ASourceThatChangesAfterPlanningIsRefused) {
  const Plan plan = small_plan(source_);
  const std::string file = join_path(source_, "model-00001-of-00002.safetensors");
  write_text(file, read_file(file));  // the same bytes, another time
  const Error error = refused(plan, to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.file(), file);
  EXPECT_FALSE(exists(out_));
}

TEST_F(StagingTest, OutputAndInputMayNotLieInsideEachOther) {
  const Plan plan = small_plan(source_);
  for (const std::string& out :
       {source_, join_path(source_, "out"), join_path(source_, "a/b"), dir_.path()}) {
    SCOPED_TRACE(out);
    const auto before = tree_of(dir_.path());
    EXPECT_EQ(refused(plan, to_output(out)).code(), ErrorCode::conflict);
    EXPECT_EQ(differing(before, tree_of(dir_.path())), "");
  }
}

TEST_F(StagingTest, ALinkIntoTheInputIsSeenThrough) {
  std::filesystem::create_directory_symlink(source_, dir_ / "link");
  const Error error = refused(small_plan(source_), to_output(dir_ / "link/out"));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_FALSE(exists(join_path(source_, "out")));
}

// Publishing renames over OUT, and staging is its sibling: both would miss what the link leads to.
TEST_F(StagingTest, ALinkIsNoOutput) {
  make_directories(dir_ / "elsewhere");
  std::filesystem::create_directory_symlink(dir_ / "elsewhere", out_);
  for (const bool overwrite : {false, true}) {
    RunOptions options = to_output(out_);
    options.overwrite = overwrite;
    const Error error = refused(small_plan(source_), options);
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_NE(error.hint_text().find("elsewhere"), std::string::npos) << error.hint_text();
  }
  EXPECT_FALSE(exists(out_paths(out_, 0).staging));
}

TEST_F(StagingTest, AnOutputThatIsNoCheckpointIsLeftAlone) {
  const Plan plan = small_plan(source_);
  write_text(dir_ / "full/notes.txt", "mine");
  write_text(dir_ / "file", "mine");
  for (const std::string name : {"full", "file"}) {
    SCOPED_TRACE(name);
    RunOptions options = to_output(dir_ / name);
    options.overwrite = true;
    EXPECT_EQ(refused(plan, options).code(), ErrorCode::conflict);
    EXPECT_FALSE(exists(out_paths(options.out, 0).staging));
  }
  EXPECT_EQ(read_file(dir_ / "full/notes.txt"), "mine");
  EXPECT_EQ(read_file(dir_ / "file"), "mine");
}

TEST_F(StagingTest, AnEmptyDirectoryIsAnOutput) {
  make_directories(out_);
  EXPECT_TRUE(convert(small_plan(source_), to_output(out_)).published);
}

TEST_F(StagingTest, TwoRunsOfOneOutputAreRefusedWhileTheFirstLives) {
  const Plan plan = small_plan(source_);
  int asked = 0;
  const Hook hook = [&](Stage stage, const Tile&) {
    if (stage != Stage::commit || asked++ > 0) return;
    RunOptions second = to_output(out_);
    second.resume = true;
    const Error error = catch_error([&] { convert(plan, second); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    RunOptions worker = to_output(out_);
    worker.workers = 2;
    EXPECT_EQ(catch_error([&] { convert(plan, worker); }).code(), ErrorCode::conflict);
  };
  EXPECT_TRUE(convert(plan, to_output(out_), hook).published);
  EXPECT_GT(asked, 0);
}

TEST_F(StagingTest, WorkersShareTheStagingAndOnlyFinalizePublishes) {
  const Plan plan = small_plan(source_);
  convert(plan, to_output(dir_ / "alone"));
  RunOptions options = to_output(out_);
  options.workers = 3;
  QuietReporter reporter;
  const auto target = make_target("orbax");
  for (const std::uint32_t worker : {2U, 0U}) {
    options.worker = worker;
    EXPECT_FALSE(convert(plan, options).published);
    EXPECT_FALSE(exists(out_));
  }
  const Error error = catch_error([&] { run_finalize(plan, *target, to_output(out_), reporter); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_FALSE(exists(out_));
  options.worker = 1;
  convert(plan, options);
  convert(plan, options);  // a worker that is started again
  const StagedPlan staged = read_staged_plan(out_);
  EXPECT_EQ(small_plan(staged.source, staged.options).id, plan.id);
  EXPECT_TRUE(run_finalize(plan, *target, to_output(out_), reporter).published);
  EXPECT_EQ(differing(tree_of(out_), tree_of(dir_ / "alone")), "");
}

TEST_F(StagingTest, FinalizeWithoutARunIsNotFound) {
  EXPECT_EQ(catch_error([&] { read_staged_plan(out_); }).code(), ErrorCode::not_found);
}

TEST(OutPaths, NamesOfTheirOwnAreWanted) {
  for (const std::string out : {"", "/", ".", "..", "a/..", "./."}) {
    SCOPED_TRACE(out);
    EXPECT_EQ(catch_error([&] { out_paths(out, 0); }).code(), ErrorCode::usage);
  }
  const OutPaths paths = out_paths("a/b//", 7);
  EXPECT_EQ(paths.out, "a/b");
  EXPECT_EQ(paths.staging, "a/.b.hfshard");
  EXPECT_EQ(paths.step, "a/.b.hfshard/out/7");
}

}  // namespace
}  // namespace hfshard
