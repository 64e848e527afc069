// A place without a checkpoint that can be read says what is there, and what to pass instead.

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "format/orbax/open.h"
#include "format/orbax/orbax.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

namespace hfshard::format::orbax {
namespace {

void put_database(const std::string& item) { write_text(item + "/manifest.ocdbt", ""); }

// The sentence, and behind it the hint in brackets.
std::string said_at(const std::string& path, const Choice& choice = {}) {
  const Error error = catch_error([&] { locate(path, choice); });
  return error.sentence() + (error.hint_text().empty() ? "" : " [" + error.hint_text() + "]");
}

TEST(OrbaxLocateErrors, APlaceThatIsNoCheckpointIsToldApart) {
  const TempDir dir;
  write_text(dir / "file", "");
  std::filesystem::create_directory(dir / "empty");
  EXPECT_EQ(said_at(dir / "none"), "no such directory");
  EXPECT_EQ(said_at(dir / "file"), "a checkpoint is a directory");
  const std::string neither =
      "not an Orbax checkpoint: neither an item, a step nor a root directory";
  EXPECT_EQ(said_at(dir / "empty"), neither);
  put_database(dir / "other/b-1/items");
  EXPECT_EQ(said_at(dir / "other"), neither + " [pass one of the directories below it: b-1]");
  put_database(dir / "other/0.orbax-checkpoint-tmp/items");
  EXPECT_EQ(said_at(dir / "other"),
            neither + " [an unfinished checkpoint is there, which hfshard doesn't read]")
      << "this goes before the other directories";
  write_text(dir / "step/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(said_at(dir / "step"), "a step directory without items");
  write_text(dir / "half/0/items/x", "");
  EXPECT_EQ(said_at(dir / "half"), "neither _METADATA nor manifest.ocdbt: not an Orbax checkpoint");
}

TEST(OrbaxLocateErrors, AnUnfinishedOneIsToldApartByItsNameAndItsParts) {
  const TempDir dir;
  put_database(dir / "5.orbax-checkpoint-tmp/items");
  const std::string by_name = "an unfinished checkpoint: by its name, its writer never finished";
  EXPECT_EQ(said_at(dir / "5.orbax-checkpoint-tmp"), by_name);
  EXPECT_EQ(said_at(dir / "5.orbax-checkpoint-tmp//"), by_name);
  const Error error = catch_error([&] { locate(dir / "5.orbax-checkpoint-tmp//"); });
  EXPECT_EQ(error.file(), dir / "5.orbax-checkpoint-tmp") << "without the slashes";
  const std::string parts =
      "an unfinished checkpoint: its processes wrote their parts, but didn't merge them";
  put_database(dir / "6/items/ocdbt.process_0");
  EXPECT_EQ(said_at(dir / "6"), parts);
  EXPECT_EQ(catch_error([&] { locate(dir / "6"); }).file(), dir / "6/items");
  EXPECT_EQ(why_incomplete(StorePath(dir / "6")),
            "is unfinished: its processes wrote their parts, but didn't merge them");
  std::filesystem::create_directory(dir / "7");
  EXPECT_EQ(why_incomplete(StorePath(dir / "7")), "is empty");
}

TEST(OrbaxLocateErrors, AChoiceThatFitsNothingSaysWhatIsThere) {
  const TempDir dir;
  for (const char* item : {"3/params", "3/opt"}) put_database(dir / item);
  std::filesystem::create_directory(dir / "3/data");
  EXPECT_EQ(said_at(dir / "3", {{}, "state"}),
            "the step has no item \"state\" [there are opt, params]");
  EXPECT_EQ(said_at(dir / "3", {{}, "data"}),
            "the item \"data\" doesn't hold arrays [leave out --items: diff then compares all "
            "items, and reshard --items all copies them]");
  EXPECT_EQ(catch_error([&] { locate(dir / "3", {{}, "data"}); }).file(), dir / "3/data");
  EXPECT_EQ(said_at(dir / "3/opt", {{}, "opt"}),
            "--items selects an item, and this already is an item");
  EXPECT_EQ(said_at(dir / "3"),
            "the step has 2 items: opt, params [pass --items params to select one]");
  write_text(dir / "4/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(said_at(dir / "4", {{}, "state"}), "the step has no item \"state\"");
}

TEST(OrbaxLocateErrors, ADeletionThatBeganSaysHowToFinishIt) {
  const TempDir dir;
  for (const char* item : {"7/items", "7/opt"}) put_database(dir / item);
  const std::string record = dir / "7/_CHECKPOINT_DELETION";
  write_text(record, R"({"checkpointable_name":"opt"})");
  const std::string begun =
      "Orbax has begun to delete this item, so parts of it may be gone [run "
      "orbax.checkpoint.v1.delete(STEP, checkpointable_name=NAME) to finish the deletion, or read "
      "another item of the step]";
  EXPECT_EQ(said_at(dir / "7/opt"), begun);
  EXPECT_EQ(said_at(dir / "7", {{}, "opt"}), begun);
  write_text(record, "{");
  EXPECT_EQ(said_at(dir / "7"),
            "the record of a deletion that Orbax began can't be read [run "
            "orbax.checkpoint.v1.delete to finish the deletion]");
}

TEST(OrbaxLocateErrors, AnEntryThatCannotBeCopiedIsNamed) {
  const TempDir dir;
  put_database(dir / "7/items");
  std::filesystem::create_symlink("nowhere", dir / "7/link");
  const Error error = catch_error([&] { find_beside(StorePath(dir / "7"), {}); });
  EXPECT_EQ(error.sentence(), "neither a file nor a directory, so hfshard can't copy it");
  EXPECT_EQ(error.file(), dir / "7/link");
}

// Files of a CheckpointManager are in the root, which is two directories above an item.
TEST(OrbaxLocateErrors, TheFilesOfTheRootAreFoundFromAStepAndFromItsItem) {
  const TempDir dir;
  put_database(dir / "7/items");
  write_text(dir / "7/_CHECKPOINT_METADATA", "{}");
  write_text(dir / "metadata/_ROOT_METADATA", R"({"custom_metadata":{"run":"x"}})");
  const std::vector<std::string> file{"metadata/_ROOT_METADATA"};
  for (const char* place : {"7", "7/items"}) {
    const Beside beside = find_beside(StorePath(dir / place), {});
    EXPECT_EQ(beside.root_files, file) << place;
    EXPECT_EQ(read_text((beside.root / file[0]).name()), R"({"custom_metadata":{"run":"x"}})");
  }
  const Beside root = find_beside(StorePath(dir.path()), {});
  EXPECT_EQ(root.root_files, file);
  EXPECT_EQ(root.root.name(), dir.path());
}

}  // namespace
}  // namespace hfshard::format::orbax
