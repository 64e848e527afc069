// Errors about an output and its staging directory say what is wrong, where, and what to do.

#include <functional>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "run/commit/staging.h"
#include "support/catch_error.h"
#include "unit/run/commit/staging_fixture.h"
#include "unit/run/far_source.h"
#include "unit/run/plan_parts.h"
#include "unit/run/run_support.h"

namespace hfshard {
namespace {

// The record of a run that was interrupted.
class StagedRecord : public StagingTest {
 protected:
  StagedRecord() {
    leave_halfway(small_plan(source_), out_);
    record_ = parse_json(read_file(path_), path_);
  }
  Error refused_with(const std::function<void(Json&)>& change) const {
    Json changed = record_;
    change(changed);
    write_text(path_, dump_json(changed));
    return refused(small_plan(source_), to_output(out_));
  }

  std::string path_ = join_path(out_paths(out_).staging, kPlanRecordName);
  Json record_;
};

TEST_F(StagedRecord, FourDifferencesToAnotherPlanAreNamed) {
  const auto differing_in = [&](const std::function<void(Json&)>& change) {
    const Error error = refused_with([&](Json& record) {
      record["plan_id"] = "another";
      change(record["identity"]);
    });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), out_paths(out_).staging);
    EXPECT_EQ(error.hint_text(),
              "finish it with its own options, or remove it with hfshard clean " + out_);
    return error.sentence();
  };
  const std::string another = "a run with another plan was started for this output (";
  EXPECT_EQ(differing_in([](Json& identity) {
              for (int i = 1; i <= 5; ++i) identity[fmt::format("a{}", i)] = i;
            }),
            another +
                "a1: 1 there, null here; a2: 2 there, null here; a3: 3 there, null here; a4: 4 "
                "there, null here)");
  EXPECT_EQ(differing_in([](Json& identity) { identity["a"] = std::string(100, 'x'); }),
            another + "a: \"" + std::string(59, 'x') + " there, null here)");
  EXPECT_EQ(
      differing_in([](Json& identity) { identity = Json("x"); }),
      another + "plan: \"x\" there, " + dump_json(record_.at("identity")).substr(0, 60) + " here)");
}

TEST_F(StagedRecord, DamageIsSaidAndHowToStartOver) {
  const std::string damaged = "the record of the interrupted run is damaged: ";
  const auto expect_damaged = [&](const Error& error, const std::string& what) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), damaged + what);
    EXPECT_EQ(error.file(), path_);
    EXPECT_EQ(error.hint_text(), "to start over, run: hfshard clean " + out_);
  };
  expect_damaged(refused_with([](Json& record) { record["sources"].array().pop_back(); }),
                 "it has 1 source files, and the plan has 2");
  const auto with_inode = [](const char* inode) {
    return [inode](Json& record) {
      record["sources"].array()[0]["inodes"] = Json::Array{parse_json(inode, "inode")};
    };
  };
  expect_damaged(refused_with(with_inode("[1, 2, 3, 4]")), "an inode has five numbers");
  expect_damaged(refused_with(with_inode("[1, 2, 3, 4, 5, 6]")), "an inode has five numbers");
}

// A new name, mode or owner explains the change of a time.
TEST_F(StagedRecord, ATimeThatNothingExplainsIsAChange) {
  const auto check_with = [&](std::size_t other) {
    Json changed = record_;
    Json::Array& inode = changed["sources"].array()[1]["inodes"].array()[0].array();
    inode[0] = Json(inode[0].as_int() - 1);
    if (other > 0) inode[other] = Json(inode[other].as_uint() + 1);
    write_text(path_, dump_json(changed));
    Staging(out_paths(out_), false).check(small_plan(source_));
  };
  const Error error = catch_error([&] { check_with(0); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(),
            "the source changed since this run was started (size, time or inode)");
  EXPECT_EQ(error.file(), join_path(source_, "model-00002-of-00002.safetensors"));
  EXPECT_EQ(error.hint_text(), "to start over, run: hfshard clean " + out_);
  for (const std::size_t other : {1U, 2U, 3U, 4U}) EXPECT_NO_THROW(check_with(other)) << other;
}

// A hub's file has a version, and it changes with a commit.
TEST_F(StagingTest, AFileOfAnotherCommitIsRefusedByAResumedRun) {
  const auto store = std::make_shared<FarStore>();
  const auto plan = [&] {
    return make_plan(StorePath{store, source_}, small_options(), format_of("orbax"),
                     small_limits());
  };
  leave_halfway(plan(), out_);
  const std::string file = join_path(source_, "model-00001-of-00002.safetensors");
  write_text(file, read_file(file));
  const Error error = refused(plan(), to_output(out_));
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the source has another commit than when this run was started");
  EXPECT_EQ(error.file(), "far:" + file);
  EXPECT_EQ(error.hint_text(), "to start over, run: hfshard clean " + out_);
}

TEST_F(StagingTest, AnOutputAroundItsInputIsRefusedWithBothNamed) {
  const Plan plan = small_plan(source_);
  const auto expect_refused = [&](const std::string& out, const std::string& sentence,
                                  const std::string& hint) {
    const Error error = refused(plan, to_output(out));
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.sentence(), sentence);
    EXPECT_EQ(error.hint_text(), hint);
    EXPECT_EQ(error.file(), out);
  };
  const std::string outside = "pass an output outside of " + source_;
  expect_refused(source_, "the output is the input", outside);
  expect_refused(join_path(source_, "a/b"), "the output is inside the input", outside);
  make_directories(dir_ / "around");
  rename_path(source_, dir_ / "around/source");
  const std::string moved = dir_ / "around/source";
  const Plan inner = small_plan(moved);
  const Error error = refused(inner, to_output(dir_ / "around"));
  EXPECT_EQ(error.sentence(), "the input is inside the output");
  EXPECT_EQ(error.file(), dir_ / "around");
  EXPECT_EQ(error.hint_text(), "pass an output that doesn't contain " + moved);
  // Next to a single file of a model an output can be, but not in its place.
  PlanOptions options;
  options.mapping.scheme = "hf";
  const std::string file = join_path(moved, "model-00001-of-00002.safetensors");
  const Plan one = small_plan(file, options);
  EXPECT_NO_THROW(check_output(one, format_of("orbax"), to_output(join_path(moved, "out"))));
  EXPECT_EQ(refused(one, to_output(file)).sentence(), "the output is the input");
}

// A tree can be given by its root, a step or an item.
TEST_F(StagingTest, AnOutputInTheRootOfItsInputIsRefused) {
  convert(small_plan(source_), to_output(dir_ / "tree"));
  PlanOptions anew = small_options();
  anew.tree.same = true;
  anew.target = "orbax";
  for (const char* given : {"tree", "tree/0"}) {
    const Plan plan = small_plan(dir_ / given, anew);
    const Error error = refused(plan, to_output(dir_ / (std::string(given) + "/new")));
    EXPECT_EQ(error.sentence(), "the output is inside the input");
    EXPECT_EQ(error.hint_text(), "pass an output outside of " + (dir_ / given));
  }
}

TEST_F(StagingTest, AnInputInStagingIsNamedWithTheDirectory) {
  leave_halfway(small_plan(source_), out_);
  const std::string inside = copy_fixture("gemma2", join_path(out_paths(out_).tree, "source"));
  const Error error = refused(small_plan(inside, {}), to_output(out_));
  EXPECT_EQ(error.sentence(), "the input is inside the output's staging directory");
  EXPECT_EQ(error.file(), inside);
  EXPECT_EQ(error.hint_text(),
            "pass another output; its staging directory would be " + out_paths(out_).staging);
}

TEST_F(StagingTest, AnIndexInPlaceIsRefusedAtAMountPointAndBesideAnother) {
  PlanOptions options;
  options.link = options.in_place = true;
  const Plan plan = small_plan(source_, options);
  const Format& target = format_of("orbax");
  const Error mounted = catch_error([&] { check_output(plan, target, to_output("/proc")); });
  EXPECT_EQ(mounted.sentence(), "the output is a mount point, and hfshard publishes by renaming");
  EXPECT_EQ(mounted.hint_text(), "pass a directory inside it, or another output");
  RunOptions run = to_output(source_);
  EXPECT_NO_THROW(check_output(plan, target, run));
  const std::string index = join_path(source_, plan.files().commit_file);
  write_text(index, "");
  const Error taken = catch_error([&] { check_output(plan, target, run); });
  EXPECT_EQ(taken.code(), ErrorCode::conflict);
  EXPECT_EQ(taken.sentence(), "the directory already has an index");
  EXPECT_EQ(taken.file(), index);
  EXPECT_EQ(taken.hint_text(), "pass --overwrite to replace it");
  run.overwrite = true;
  EXPECT_NO_THROW(check_output(plan, target, run));
}

TEST_F(StagingTest, ATakenStepIsRefusedWithTheWayToAnother) {
  convert(small_plan(source_, options_of_step(7)), to_output(out_));
  const Error taken = refused(small_plan(source_, options_of_step(7)), to_output(out_));
  EXPECT_EQ(taken.sentence(), "the output already has step 7");
  EXPECT_EQ(taken.file(), out_);
  EXPECT_EQ(taken.hint_text(), "pass another output, --output-step N, or --overwrite");
  write_text(join_path(out_, "0/notes.txt"), "mine");
  const Error other = refused(small_plan(source_), to_output(out_));
  EXPECT_EQ(other.sentence(), "the step's name is taken by something that isn't a checkpoint");
  EXPECT_EQ(other.file(), join_path(out_, "0"));
  EXPECT_EQ(other.hint_text(),
            "pass another output or --output-step; hfshard deletes only what it wrote");
  RunOptions overwrite = to_output(out_);
  overwrite.overwrite = true;
  write_text(join_path(out_, "7/theirs/state"), "mine");
  const Error more = refused(small_plan(source_, options_of_step(7)), overwrite);
  EXPECT_EQ(more.sentence(), "the step has something that the new one doesn't replace");
  EXPECT_EQ(more.file(), join_path(out_, "7/theirs"));
  EXPECT_EQ(more.hint_text(), "move it away, or pass another output or --output-step");
}

TEST_F(StagingTest, AnOutputWithoutStepsIsReplacedOnlyIfAllOfItIsHfshards) {
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const Plan plan = small_plan(source_, options);
  RunOptions run = to_output(out_);
  const std::string only = "; hfshard deletes only what it wrote";
  copy_fixture("gemma2", out_);
  for (run.overwrite = false;; run.overwrite = true) {
    const Error theirs = refused(plan, run);
    EXPECT_EQ(theirs.sentence(), "the output exists, and hfshard didn't write it");
    EXPECT_EQ(theirs.file(), out_);
    EXPECT_EQ(theirs.hint_text(), "pass a path that doesn't exist" + only);
    if (run.overwrite) break;
  }
  remove_tree(out_);
  convert(plan, to_output(out_));
  run.overwrite = false;
  const Error ours = refused(plan, run);
  EXPECT_EQ(ours.sentence(), "the output already has a checkpoint");
  EXPECT_EQ(ours.hint_text(), "pass another output, or --overwrite");
  write_text(join_path(out_, "notes.txt"), "mine");
  run.overwrite = true;
  const Error more = refused(plan, run);
  EXPECT_EQ(more.sentence(), "the output has a file that hfshard didn't write");
  EXPECT_EQ(more.file(), join_path(out_, "notes.txt"));
  EXPECT_EQ(more.hint_text(), "move it away" + only);
  write_text(dir_ / "file", "mine");
  const Error file = refused(plan, to_output(dir_ / "file"));
  EXPECT_EQ(file.sentence(), "the output exists and is no safetensors checkpoint");
  EXPECT_EQ(file.hint_text(), "pass a path that doesn't exist" + only);
}

TEST_F(StagingTest, AnUnfinishedRunIsDescribedByItsRecord) {
  const Error none = catch_error([&] { read_staged_plan(out_); });
  EXPECT_EQ(none.sentence(), "no run was started for this output; it has no staging directory");
  EXPECT_EQ(none.file(), out_);
  EXPECT_EQ(none.hint_text(),
            "run hfshard convert first; a finished output has no staging directory");
  EXPECT_FALSE(has_staged_plan(out_));
  leave_halfway(small_plan(source_, options_of_step(5)), out_);
  EXPECT_TRUE(has_staged_plan(out_ + "/"));
  const StagedPlan staged = read_staged_plan(out_);
  EXPECT_EQ(staged.source, source_);
  EXPECT_EQ(staged.options.step, 5U);
  EXPECT_EQ(staged.options.tree.config_name, "");
  PlanParts parts(small_plan(source_));
  parts.facts.options.tree.config_text = "{}";
  parts.facts.options.tree.config_name = dir_ / "away/../config.json";
  const OutPaths other = out_paths(dir_ / "other");
  Staging(other, false).begin(parts.build());
  EXPECT_EQ(read_staged_plan(other.out).options.tree.config_name, dir_ / "config.json");
}

}  // namespace
}  // namespace hfshard
