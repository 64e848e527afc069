#include "run/keeping/in_place.h"

#include <atomic>
#include <cerrno>
#include <string_view>

#include <gtest/gtest.h>

#include "bytes/syscalls.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Renames of an index that are allowed before the system refuses all further ones.
std::atomic<int> g_moves_left{0};
int stop_moving(const char* call, const char* path) {
  const std::string_view name(path);
  if (std::string_view(call) != "rename" || name.ends_with(".tmp")) return 0;
  return --g_moves_left < 0 ? EIO : 0;
}

class InPlaceTest : public testing::Test {
 protected:
  static PlanOptions options(bool checksum) {
    PlanOptions out;
    out.link = out.in_place = true;
    out.encoding.checksum = checksum;
    return out;
  }
  static RunOptions overwriting(const std::string& out) {
    RunOptions options = to_output(out);
    options.overwrite = true;
    return options;
  }
  static RunOptions resuming(const std::string& out) {
    RunOptions options = to_output(out);
    options.resume = true;
    return options;
  }
  // Stops after so many files have moved; false if it came to its end.
  bool interrupted(const Plan& plan, const RunOptions& run, int moves) const {
    g_moves_left = moves;
    sys::set_fault_hook(&stop_moving);
    bool stopped = false;
    try {
      convert(plan, run);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.format();
      stopped = true;
    }
    sys::set_fault_hook(nullptr);
    return stopped;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("llama3.1", dir_ / "source");
  Plan old_plan_ = small_plan(source_, options(false));  // small: many data files
  Plan plan_ = small_plan(source_, options(true), {});
};

TEST_F(InPlaceTest, TheOldIndexIsWholeAgainWhereverTheNewOneStopped) {
  const auto bare = tree_of(source_);
  for (const bool over : {false, true}) {
    if (over) convert(old_plan_, to_output(source_));
    const auto before = tree_of(source_);
    int moves = 0;
    for (; interrupted(plan_, overwriting(source_), moves); ++moves) {
      SCOPED_TRACE(moves);
      EXPECT_TRUE(clean_staging(out_paths(source_)));
      EXPECT_EQ(differing(before, tree_of(source_)), "");
    }
    EXPECT_GT(moves, 6);
    EXPECT_EQ(published_plan_id(format_of("orbax"), source_), plan_.id());
    for (const auto& [name, unused] : tree_of(source_)) {
      if (!bare.contains(name)) remove_tree(join_path(source_, name));
    }
  }
}

TEST_F(InPlaceTest, DataFilesOfTheOldIndexGoWithIt) {
  convert(old_plan_, to_output(source_));
  EXPECT_TRUE(exists(join_path(source_, "d/00001")));
  write_text(join_path(source_, "d/notes.txt"), "mine");
  convert(plan_, overwriting(source_));
  EXPECT_EQ(list_directory(join_path(source_, "d")),
            (std::vector<std::string>{"00000", "btree", "notes.txt"}));
}

// What another program's index names is replaced where ours has the same names, and else stays.
TEST_F(InPlaceTest, DataFilesOfAnIndexThatIsNotOursStay) {
  convert(old_plan_, to_output(source_));
  ASSERT_TRUE(exists(join_path(source_, "d/00001")));
  write_text(join_path(source_, "_CHECKPOINT_METADATA"), "{}");
  const std::string theirs = read_file(join_path(source_, "d/00001"));
  convert(plan_, overwriting(source_));
  EXPECT_EQ(read_file(join_path(source_, "d/00001")), theirs);
}

// The metadata of one index and the manifest of another: nobody's checkpoint.
TEST_F(InPlaceTest, TheMetadataAloneIsNotBelieved) {
  convert(plan_, to_output(source_));
  const std::string path = join_path(source_, "_CHECKPOINT_METADATA");
  const std::string ours = read_file(path);
  EXPECT_TRUE(convert(plan_, resuming(source_)).already_done);
  convert(old_plan_, overwriting(source_));
  write_text(path, ours);
  EXPECT_EQ(published_plan_id(format_of("orbax"), source_), "");
  const Error error = catch_error([&] { convert(plan_, resuming(source_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  write_text(join_path(source_, "manifest.ocdbt"), "damaged");
  EXPECT_EQ(catch_error([&] { convert(plan_, resuming(source_)); }).code(), ErrorCode::conflict);
  remove_tree(join_path(source_, "manifest.ocdbt"));
  EXPECT_EQ(catch_error([&] { convert(plan_, resuming(source_)); }).code(), ErrorCode::conflict);
}

TEST_F(InPlaceTest, OnlyAnIndexIsReplaced) {
  for (const char* name : {"hfshard.json", "_METADATA", "d/00000"}) {
    SCOPED_TRACE(name);
    write_text(join_path(source_, name), "mine");
    const auto before = tree_of(source_);
    for (const RunOptions& run : {to_output(source_), overwriting(source_)}) {
      const Error error = catch_error([&] { convert(plan_, run); });
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(error.file(), join_path(source_, name));
      EXPECT_EQ(differing(before, tree_of(source_)), "");
    }
    remove_tree(join_path(source_, name));
  }
}

}  // namespace
}  // namespace hfshard
