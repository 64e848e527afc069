#include "run/commit/recover.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class RecoverTest : public testing::Test {
 protected:
  RecoverTest() {
    { const Staging made(paths_, false); }
    write_text(join_path(paths_.step, "x"), "staged");
    write_text(join_path(paths_.out, "config.json"), "mine");
  }
  void note(const std::string& step) {
    Json mark;
    mark["step"] = step;
    mark["inode"] = inode_of(paths_.step);
    mark["hf"] = 0;
    write_mark(paths_, mark);
  }

  TempDir dir_;
  OutPaths paths_ = out_paths(dir_ / "out", "7");
};

TEST_F(RecoverTest, AStepThatIsNotStagedIsRefused) {
  for (const char* step : {"", ".", "..", "../out", "out/../../out", "/tmp", "outside", "out/"}) {
    SCOPED_TRACE(step);
    note(step);
    const auto before = tree_of(dir_ / "");
    EXPECT_EQ(catch_error([&] { clean_staging(paths_); }).code(), ErrorCode::corrupt);
    EXPECT_EQ(catch_error([&] { staging_use(paths_); }).code(), ErrorCode::corrupt);
    EXPECT_EQ(differing(before, tree_of(dir_ / "")), "");
  }
}

TEST_F(RecoverTest, AStepThroughALinkIsRefused) {
  note("out/7");
  rename_path(paths_.tree, dir_ / "aside");
  std::filesystem::create_symlink(dir_ / "aside", paths_.tree);
  EXPECT_EQ(catch_error([&] { clean_staging(paths_); }).code(), ErrorCode::corrupt);
  EXPECT_TRUE(exists(dir_ / "aside/7/x"));
}

TEST_F(RecoverTest, ANoteThatLacksSomethingIsRefused) {
  for (const char* text : {"{}", "[]", "", R"({"step": "out/7"})", R"({"step": 7, "inode": 1})",
                           R"({"files": ["x"]})", R"({"files": []})"}) {
    SCOPED_TRACE(text);
    write_text(join_path(paths_.staging, "publishing.json"), text);
    const Error error = catch_error([&] { clean_staging(paths_); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), join_path(paths_.staging, "publishing.json"));
  }
}

// An exchange only moves the step and hf/.
TEST_F(RecoverTest, OnlyWhatIsExchangedGoesBack) {
  note("out/7");
  for (const char* name : {"7", "hf", "evil"})
    write_text(join_path(paths_.tree, std::string(name) + ".swap/x"), name);
  recover(paths_);
  EXPECT_EQ(read_file(join_path(paths_.out, "7/x")), "7");
  EXPECT_EQ(read_file(join_path(paths_.out, "hf/x")), "hf");
  EXPECT_FALSE(exists(join_path(paths_.out, "evil")));
}

TEST_F(RecoverTest, WhatIsInPlaceStaysAndTheOtherGoesBack) {
  note("out/7");
  for (const std::string in_place : {"7", "hf"}) {
    SCOPED_TRACE(in_place);
    const std::string other = in_place == "7" ? "hf" : "7";
    for (const char* name : {"7", "hf"})
      write_text(join_path(paths_.tree, std::string(name) + ".swap/x"), name);
    write_text(join_path(paths_.out, in_place + "/x"), "in place");
    EXPECT_EQ(recover(paths_), StagingUse::go_on);
    EXPECT_EQ(read_file(join_path(paths_.out, in_place + "/x")), "in place");
    EXPECT_EQ(read_file(join_path(paths_.tree, in_place + ".swap/x")), in_place);
    EXPECT_EQ(read_file(join_path(paths_.out, other + "/x")), other);
    EXPECT_FALSE(exists(join_path(paths_.tree, other + ".swap")));
    for (const char* name : {"7", "hf"}) {
      remove_tree(join_path(paths_.out, name));
      remove_tree(join_path(paths_.tree, std::string(name) + ".swap"));
    }
  }
}

// A format without steps exchanges OUT itself.
TEST_F(RecoverTest, AnOutputThatWasMovedAsideGoesBack) {
  note("out/7");
  write_text(paths_.tree + ".swap/x", "old");
  recover(paths_);
  EXPECT_EQ(list_directory(paths_.out), std::vector<std::string>{"config.json"});
  remove_tree(paths_.out);
  recover(paths_);
  EXPECT_EQ(read_file(join_path(paths_.out, "x")), "old");
  EXPECT_FALSE(exists(paths_.tree + ".swap"));
  remove_tree(paths_.out);
  recover(paths_);
  EXPECT_FALSE(exists(paths_.out));
}

TEST_F(RecoverTest, AnHfThatMovedToARootWithoutOneGoesBack) {
  const std::string staged = join_path(paths_.tree, "hf");
  const std::string hf = join_path(paths_.out, "hf");
  write_text(join_path(staged, "x"), "staged");
  mark_publishing(paths_);
  rename_path(staged, hf);
  EXPECT_EQ(recover(paths_), StagingUse::go_on);
  EXPECT_EQ(read_file(join_path(staged, "x")), "staged");
  EXPECT_FALSE(exists(hf));
}

// hf/ is exchanged before the step is, and a run can end in between.
TEST_F(RecoverTest, AnHfWithoutItsStepGoesBack) {
  const std::string staged = join_path(paths_.tree, "hf");
  const std::string hf = join_path(paths_.out, "hf");
  write_text(join_path(staged, "x"), "staged");
  write_text(join_path(hf, "x"), "old");
  mark_publishing(paths_);
  for (const bool exchanged : {false, true}) {
    SCOPED_TRACE(exchanged);
    if (exchanged) rename_exchange(staged, hf);
    EXPECT_EQ(recover(paths_), StagingUse::go_on);
    EXPECT_EQ(read_file(join_path(staged, "x")), "staged");
    EXPECT_EQ(read_file(join_path(hf, "x")), "old");
  }
}

TEST_F(RecoverTest, ADamagedNoteSaysWhatIsWrongAndHowToGoOn) {
  const auto expect_damaged = [&](const std::string& what) {
    const Error error = catch_error([&] { clean_staging(paths_); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), "the note of an interrupted publish is damaged: " + what);
    EXPECT_EQ(error.file(), join_path(paths_.staging, "publishing.json"));
    EXPECT_EQ(
        error.hint_text(),
        "hfshard changed nothing; if you don't need its contents, run: rm -r " + paths_.staging);
  };
  note("outside");
  expect_damaged("\"outside\" isn't a staged step");
  note("out/7");
  rename_path(paths_.step, dir_ / "aside");
  std::filesystem::create_symlink(dir_ / "aside", paths_.step);
  expect_damaged("\"" + paths_.step + "\" is a link");
}

// The inode of the staged step tells whether it has left.
TEST_F(RecoverTest, AStepThatLeftStagingWasPublished) {
  EXPECT_EQ(staging_use(paths_), StagingUse::go_on) << "without a note";
  mark_publishing(paths_);
  EXPECT_EQ(staging_use(paths_), StagingUse::go_on);
  EXPECT_FALSE(has_journals(paths_));
  write_text(join_path(paths_.staging, "journal.0-1.0000"), "");
  EXPECT_TRUE(has_journals(paths_));
  rename_path(paths_.step, join_path(paths_.out, "7"));
  EXPECT_EQ(staging_use(paths_), StagingUse::published);
  EXPECT_EQ(recover(paths_), StagingUse::published);
  write_text(join_path(paths_.step, "x"), "the old step, after an exchange");
  EXPECT_EQ(staging_use(paths_), StagingUse::published);
  EXPECT_EQ(read_file(join_path(paths_.out, "7/x")), "staged");
  EXPECT_EQ(inode_of(dir_ / "nothing"), 0U);
}

// A worker of a published output can't go on.
TEST_F(RecoverTest, AWorkerIsToldHowToRemoveThePublishedRun) {
  mark_publishing(paths_);
  rename_path(paths_.step, join_path(paths_.out, "7"));
  const Error error = catch_error([&] { const Staging shared(paths_, true); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "a run of this output was interrupted after it published");
  EXPECT_EQ(error.file(), paths_.staging);
  EXPECT_EQ(error.hint_text(), "remove the rest of the run with hfshard clean " + paths_.out);
  EXPECT_TRUE(Staging(paths_, false).published());
}

}  // namespace
}  // namespace hfshard
