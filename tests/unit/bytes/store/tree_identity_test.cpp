// A directory as one file of a source.

#include "bytes/store/tree_identity.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/source.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(TreeIdentity, ChangesWithAnyFileBelow) {
  const TempDir directory;
  write_text(directory / "a", "one");
  write_text(directory / "below/b", "two");
  const TreeIdentity first = identify_tree(directory.path());
  EXPECT_EQ(first.identity.size_bytes, 6U);
  const auto opened = first.path.open_data(IoMode::automatic, nullptr);
  EXPECT_EQ(opened->identity().version, first.identity.version);
  opened->check_unchanged();
  EXPECT_EQ(identify_tree(directory.path()).content_sha256, first.content_sha256);

  write_text(directory / "below/b", "owt");  // of equal size
  const TreeIdentity second = identify_tree(directory.path());
  EXPECT_NE(second.identity.version, first.identity.version);
  EXPECT_NE(second.content_sha256, first.content_sha256);
  EXPECT_EQ(catch_error([&] { opened->check_unchanged(); }).code(), ErrorCode::conflict);
}

// No one can set an inode's change time.
TEST(TreeIdentity, ChangesIfTheTimeOfAWriteWasPutBack) {
  const TempDir directory;
  const std::string path = directory / "below/b";
  write_text(path, "two");
  const FileIdentity first = tree_version(directory.path());
  const auto time = std::filesystem::last_write_time(path);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "owt";
  std::filesystem::last_write_time(path, time);
  const FileIdentity second = tree_version(directory.path());
  EXPECT_EQ(second.version, first.version);
  EXPECT_NE(second, first);
  std::filesystem::create_hard_link(path, directory.path() + ".linked");
  EXPECT_EQ(tree_version(directory.path()), second);
  std::filesystem::remove(directory.path() + ".linked");
  std::filesystem::permissions(path, std::filesystem::perms::owner_read);
  EXPECT_EQ(tree_version(directory.path()), second);
}

// A directory whose only file is removed after it was listed.
class Vanishing final : public Store {
 public:
  std::string text(const std::string& name) const override { return name; }
  std::vector<std::string> list(const std::string& /*name*/) const override { return {"a"}; }
  std::optional<StoreEntry> find(const std::string& /*name*/) const override { return {}; }
  std::unique_ptr<SourceFile> open(const std::string& /*name*/) const override { return {}; }
  std::unique_ptr<SourceFile> open_data(const std::string& /*name*/, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> /*behind*/) const override {
    return {};
  }
  std::optional<std::string> local_path(const std::string& /*name*/) const override { return {}; }
};

TEST(TreeIdentity, IsWithoutFilesThatAreGoneMeanwhile) {
  const TempDir empty;
  const TreeIdentity gone = identify_tree(StorePath(std::make_shared<Vanishing>(), "tree"));
  EXPECT_EQ(gone.identity.version, tree_version(empty.path()).version);
  EXPECT_EQ(gone.identity.size_bytes, 0U);
}

// A directory with a file and a directory that the process may not list. Root may list every
// directory, but a file without the right to execute refuses access(2) to everyone.
class PartlyClosed final : public Store {
 public:
  explicit PartlyClosed(std::string closed) : closed_(std::move(closed)) {}
  std::string text(const std::string& name) const override { return name; }
  std::vector<std::string> list(const std::string& name) const override {
    if (name != "tree") throw Error(ErrorCode::io, "can't list: Permission denied");
    return {"a", "lost+found"};
  }
  std::optional<StoreEntry> find(const std::string& name) const override {
    if (name == "tree/a") return StoreEntry{FileKind::regular, {3, "1"}};
    return StoreEntry{FileKind::directory, {}};
  }
  std::unique_ptr<SourceFile> open(const std::string& /*name*/) const override {
    return std::make_unique<FileSource>(closed_);
  }
  std::unique_ptr<SourceFile> open_data(const std::string& name, IoMode /*wanted*/,
                                        std::shared_ptr<DropBehind> /*behind*/) const override {
    return open(name);
  }
  std::optional<std::string> local_path(const std::string& name) const override {
    if (name == "tree/lost+found") return closed_;
    return {};
  }

 private:
  std::string closed_;
};

TEST(TreeIdentity, IsWithoutDirectoriesThatMayNotBeListed) {
  const TempDir dir;
  write_text(dir / "closed", "abc");
  const StorePath tree(std::make_shared<PartlyClosed>(dir / "closed"), "tree");
  ASSERT_TRUE((tree / "lost+found").is_closed());
  EXPECT_EQ(tree_version(tree).size_bytes, 3U);
  EXPECT_EQ(identify_tree(tree).identity, tree_version(tree));
}

TEST(TreeIdentity, ChangesWithAName) {
  const TempDir directory;
  write_text(directory / "a", "x");
  const FileIdentity first = tree_version(directory.path());
  std::filesystem::rename(directory / "a", directory / "b");
  EXPECT_NE(tree_version(directory.path()).version, first.version);
}

TEST(TreeIdentity, OfOtherNamesIsAnother) {
  const TempDir one;
  const TempDir other;
  write_text(one / "a", "x");
  write_text(other / "b", "x");
  EXPECT_NE(identify_tree(one.path()).content_sha256, identify_tree(other.path()).content_sha256);
}

TEST(TreeIdentity, TheContentsOfFilesUpToOneMebibyteCount) {
  const TempDir directory;
  const auto content = [&](std::size_t size, char byte) {
    write_text(directory / "a", std::string(size, byte));
    return identify_tree(directory.path()).content_sha256;
  };
  constexpr std::size_t kSmall = std::size_t{1} << 20;
  EXPECT_NE(content(kSmall, 'x'), content(kSmall, 'y'));
  EXPECT_EQ(content(kSmall + 1, 'x'), content(kSmall + 1, 'y')) << "its size alone";
  EXPECT_NE(content(kSmall + 1, 'x'), content(kSmall + 2, 'x'));
}

TEST(TreeIdentity, IsAFileThatIsNeverRead) {
  const TempDir directory;
  write_text(directory / "a", "one");
  write_text(directory / "below/b", "two!");
  const TreeIdentity tree = identify_tree(directory.path());
  EXPECT_EQ(tree.path.text(), directory.path());
  EXPECT_EQ(tree.path.name(), directory.path());
  EXPECT_TRUE(tree.path.is_file());
  EXPECT_FALSE(tree.path.local_path());
  EXPECT_TRUE(tree.path.list().empty());
  EXPECT_EQ(tree.path.find()->identity, tree.identity);
  const auto file = tree.path.open();
  EXPECT_EQ(file->size_bytes(), 7U);
  EXPECT_EQ(file->name(), directory.path());
  EXPECT_EQ(file->identity(), tree.identity);
  EXPECT_FALSE(file->takes_hints());
  const Error error = catch_error([&] { file->read_at(0, {}); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_EQ(error.sentence(), "this is a directory, not a file");
  EXPECT_EQ(error.file(), directory.path());
}

// A name and the parts of a path can have the same letters.
TEST(TreeIdentity, ChangesWithASizeAndWithTheDirectoryOfAFile) {
  const TempDir one;
  write_text(one / "a/b", "x");
  const TreeIdentity first = identify_tree(one.path());
  const TempDir other;
  write_text(other / "ab", "x");
  EXPECT_NE(identify_tree(other.path()).content_sha256, first.content_sha256);
  const TempDir same;
  write_text(same / "a/b", "x");
  EXPECT_EQ(identify_tree(same.path()).content_sha256, first.content_sha256);
  write_text(same / "a/b", "xx");
  EXPECT_NE(identify_tree(same.path()).content_sha256, first.content_sha256);
  write_text(same / "a/b", "y");
  EXPECT_NE(identify_tree(same.path()).content_sha256, first.content_sha256);
  EXPECT_EQ(catch_error([&] { identify_tree(one / "none"); }).code(), ErrorCode::not_found);
}

TEST(TreeIdentity, TheContentsOfSixtyFourMebibytesCount) {
  const TempDir directory;
  const auto path = [&](int number) { return directory / std::to_string(100 + number); };
  for (int i = 0; i < 65; ++i) {
    write_text(path(i), "");
    std::filesystem::resize_file(path(i), std::uintmax_t{1} << 20);  // a hole
  }
  const auto content_with = [&](int number) {
    std::fstream(path(number), std::ios::in | std::ios::out | std::ios::binary) << "x";
    return identify_tree(directory.path()).content_sha256;
  };
  const std::string before = identify_tree(directory.path()).content_sha256;
  EXPECT_EQ(content_with(64), before) << "its size alone";
  EXPECT_NE(content_with(63), before);
}

}  // namespace
}  // namespace hfshard
