#include "bytes/store/store.h"

#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "bytes/store/open_files.h"
#include "support/catch_error.h"
#include "support/memory_store.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

TEST(StorePath, OfThisMachineIsAPath) {
  const TempDir dir;
  write_text(dir / "a/f", "text");
  std::filesystem::create_symlink(dir / "nowhere", dir / "a/link");
  const StorePath a = dir / "a";
  EXPECT_EQ(a.list(), (std::vector<std::string>{"f", "link"}));
  EXPECT_TRUE(a.is_directory());
  EXPECT_FALSE(a.is_file());
  const StorePath f = a / "f";
  EXPECT_TRUE(f.is_file());
  EXPECT_EQ(f.text(), dir / "a/f");
  EXPECT_EQ(f.parent(), a);
  EXPECT_EQ(f.local_path(), dir / "a/f");
  EXPECT_EQ(f.read(), "text");
  EXPECT_EQ(f.find()->identity, f.open()->identity());
  EXPECT_EQ(f.find()->identity, f.open_data(IoMode::automatic, nullptr)->identity());
  EXPECT_EQ(catch_error([&] { f.read(3); }).code(), ErrorCode::limit);
  const StorePath link = a / "link";
  EXPECT_EQ(link.find()->kind, FileKind::dangling);
  EXPECT_TRUE(link.exists());
  EXPECT_FALSE(link.is_file());
  EXPECT_FALSE(f.is_closed()) << "only a directory is";
  EXPECT_FALSE((a / "none").exists());
  EXPECT_EQ(catch_error([&] { (a / "none").open(); }).code(), ErrorCode::not_found);
}

// Each part counts alone: a copy in place of a file is another file.
TEST(FileIdentity, TellsVersionsApart) {
  const FileStamp stamp{10, 20, 30};
  const FileIdentity identity = identity_of(stamp);
  EXPECT_EQ(identity_of({10, 20, 30}), identity);
  EXPECT_NE(identity_of({11, 20, 30}), identity);
  EXPECT_NE(identity_of({10, 21, 30}), identity);
  EXPECT_NE(identity_of({10, 20, 31}), identity);
  EXPECT_NE(identity_of({10, 2, 130}), identity_of({10, 21, 30}));
}

TEST(StorePath, OfAnotherStoreIsNoneOfThisMachine) {
  const TempDir dir;
  write_text(dir / "d/f", "text");
  const auto store = std::make_shared<MemoryStore>(dir.path());
  const StorePath f(store, "tree/d/f");
  EXPECT_EQ(f.read(), "text");
  EXPECT_EQ(f.local_path(), std::nullopt);
  EXPECT_EQ(f.parent().list(), (std::vector<std::string>{"f"}));
  EXPECT_EQ(f.parent() / "f", f);
  EXPECT_NE(f, StorePath("tree/d/f"));
  EXPECT_TRUE(f.is_file());
  EXPECT_FALSE(f.is_directory());
  EXPECT_TRUE(f.parent().is_directory());
  EXPECT_FALSE(f.parent().is_file());
  EXPECT_FALSE((f.parent() / "g").is_file());
  EXPECT_FALSE((f.parent() / "g").is_directory());
}

TEST(OpenFiles, EachNumberIsItsOwnFileAlsoIfNotAllStayOpen) {
  const TempDir dir;
  const OpenFiles files;
  std::weak_ptr<const SourceFile> first;
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < 130; ++i) {
      const std::string path = dir / std::to_string(i);
      if (round == 0) write_text(path, std::to_string(i));
      const auto file = files.open(i, StorePath(path));
      EXPECT_EQ(file->name(), path);
      if (i == 0 && round == 0) first = file;
      EXPECT_EQ(first.expired(), round == 1 || i >= 64) << i;
      EXPECT_EQ(files.open(i, StorePath(path)), file);
    }
  }
}

TEST(StorePath, ALinkThatCannotBeFollowedSaysWhy) {
  const TempDir dir;
  std::filesystem::create_symlink(dir / "loop", dir / "loop");
  std::filesystem::create_symlink(dir / "nowhere", dir / "nothing");
  const auto loop = StorePath(dir / "loop").find();
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->kind, FileKind::dangling);
  ASSERT_TRUE(loop->why);
  EXPECT_EQ(loop->why->sentence(), "can't look up: Too many levels of symbolic links");
  EXPECT_EQ(loop->why->file(), dir / "loop");
  EXPECT_FALSE(StorePath(dir / "nothing").find()->why) << "its target doesn't exist";
  EXPECT_FALSE(StorePath(dir / "loop").is_directory());
  const StorePath lengthy(dir / std::string(300, 'x'));
  EXPECT_EQ(catch_error([&] { (void)lengthy.find(); }).code(), ErrorCode::io) << "not a link";
}

TEST(StorePath, IsNearAndHasNoVersionOnThisMachine) {
  const TempDir dir;
  write_text(dir / "f", "text");
  const StorePath f(dir / "f");
  EXPECT_FALSE(f.is_far());
  EXPECT_EQ(f.revision(), "");
  EXPECT_FALSE(f.network_use());
  EXPECT_FALSE(f.fetched_path());
  EXPECT_EQ(f.at("other").text(), "other");
  EXPECT_EQ(StorePath(dir.path()).find()->kind, FileKind::directory);
  EXPECT_EQ(StorePath("/dev/null").find()->kind, FileKind::other);
  EXPECT_EQ(StorePath().name(), "");
  const Error limit = catch_error([&] { f.read(3); });
  EXPECT_EQ(limit.sentence(), "the file has 4 bytes; hfshard reads at most 3 at once");
  EXPECT_EQ(limit.file(), dir / "f");
}

TEST(FileIdentity, ChangesOfInodesCountIfBothHaveThem) {
  const InodeState then{1, 2, 0644, 3, 4};
  const InodeState written{5, 2, 0644, 3, 4};
  const InodeState linked{5, 3, 0644, 3, 4};
  const FileIdentity first{10, "v", {then, then}};
  EXPECT_EQ(first, (FileIdentity{10, "v", {then, linked}}));
  EXPECT_NE(first, (FileIdentity{10, "v", {then, written}}));
  EXPECT_NE(first, (FileIdentity{10, "v", {written, then}}));
  EXPECT_EQ(first, (FileIdentity{10, "v", {}})) << "of another store";
  EXPECT_NE(first, (FileIdentity{10, "w", {then, then}}));
  EXPECT_NE(first, (FileIdentity{11, "v", {then, then}}));
}

}  // namespace
}  // namespace hfshard
