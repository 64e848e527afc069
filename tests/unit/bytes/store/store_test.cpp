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

}  // namespace
}  // namespace hfshard
