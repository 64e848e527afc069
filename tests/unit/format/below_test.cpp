#include "format/below.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/formats.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

using Places = std::vector<std::string>;

void make_checkpoint(const std::string& place) { write_text(place + "/.metadata", ""); }

TEST(CheckpointsBelow, AreFoundBesideAnyNumberOfFiles) {
  const TempDir dir;
  for (int i = 0; i < 600; ++i) write_text(dir / ("logs/" + std::to_string(i)), "");
  make_checkpoint(dir / "run/weights");
  EXPECT_EQ(checkpoints_below(dir.path()), Places{dir / "run/weights"});
}

TEST(CheckpointsBelow, HiddenAndVeryDeepOnesAreNotLookedFor) {
  const TempDir dir;
  make_checkpoint(dir / ".cache/weights");
  make_checkpoint(dir / "a/b/c/d/e/f");
  EXPECT_EQ(checkpoints_below(dir.path()), Places());
  make_checkpoint(dir / "a/b/c/d/x");
  EXPECT_EQ(checkpoints_below(dir.path()), Places{dir / "a/b/c/d/x"});
}

TEST(CheckpointsBelow, AFewAreEnoughAndTheirOwnPartsDoNotCount) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    make_checkpoint(dir / name);
    make_checkpoint(dir / (std::string(name) + "/inner"));
  }
  EXPECT_EQ(checkpoints_below(dir.path()), (Places{dir / "a", dir / "b", dir / "c", dir / "d"}));
  EXPECT_EQ(hint_of_below({"a b", "c"}), "pass one of the checkpoints below it: 'a b', c");
  EXPECT_EQ(hint_of_below({"c"}), "the checkpoint is below it: pass c");
}

TEST(CheckpointsBelow, OnlySoManyDirectoriesAreLookedAt) {
  const auto is_found = [](int others) {
    const TempDir dir;
    for (int i = 0; i < others; ++i)
      std::filesystem::create_directory(dir / ("a" + std::to_string(1000 + i)));
    make_checkpoint(dir / "z");
    return checkpoints_below(dir.path()) == Places{dir / "z"};
  };
  EXPECT_TRUE(is_found(498)) << "with the directory itself and the last, 500";
  EXPECT_FALSE(is_found(499));
}

}  // namespace
}  // namespace hfshard
