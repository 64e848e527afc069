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

}  // namespace
}  // namespace hfshard
