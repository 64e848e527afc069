#include "bytes/local/files.h"

#include <cerrno>
#include <filesystem>
#include <optional>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

TEST(Files, KnowsWhatAPathLeadsTo) {
  const TempDir dir;
  write_text(dir / "f", "abc");
  std::filesystem::create_symlink("f", dir / "link");
  std::filesystem::create_symlink("none", dir / "dangling");
  EXPECT_EQ(file_info(dir / "f")->kind, FileKind::regular);
  EXPECT_EQ(file_info(dir / "link")->stamp.size_bytes, 3U);
  EXPECT_EQ(file_info(dir.path())->kind, FileKind::directory);
  EXPECT_EQ(file_info("/dev/null")->kind, FileKind::other);
  EXPECT_FALSE(file_info(dir / "dangling"));
  EXPECT_TRUE(exists(dir / "dangling"));
  EXPECT_FALSE(exists(dir / "f/below"));
  EXPECT_TRUE(is_symlink(dir / "dangling"));
  EXPECT_FALSE(is_symlink(dir / "f"));
  EXPECT_FALSE(is_symlink(dir / "f/below"));
  EXPECT_FALSE(is_symlink(dir / "none"));
  EXPECT_EQ(catch_error([&] { exists(dir / std::string(300, 'x')); }).code(), ErrorCode::io);
  EXPECT_EQ(catch_error([&] { file_info(dir / std::string(300, 'x')); }).code(), ErrorCode::io);
}

TEST(Files, ListsNamesInByteOrder) {
  const TempDir dir;
  for (const char* name : {"b", "a", "B", ".hidden"}) write_text(dir / name, "");
  EXPECT_EQ(list_directory(dir.path()), (Names{".hidden", "B", "a", "b"}));
  EXPECT_EQ(catch_error([&] { list_directory(dir / "none"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(catch_error([&] { list_directory(dir / "a"); }).code(), ErrorCode::io);
}

TEST(Files, ReadsWholeFilesUpToALimit) {
  const TempDir dir;
  write_text(dir / "f", "abc");
  EXPECT_EQ(read_file(dir / "f", 3), "abc");
  EXPECT_EQ(catch_error([&] { read_file(dir / "f", 2); }).code(), ErrorCode::limit);
}

TEST(Files, PathsAreJoinedAndCut) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("", "b"), "b");
  EXPECT_EQ(parent_path("a/b"), "a");
  EXPECT_EQ(parent_path("a/b/"), "a");
  EXPECT_EQ(parent_path("a//b"), "a");
  EXPECT_EQ(parent_path("b"), ".");
  EXPECT_EQ(parent_path("/b"), "/");
  EXPECT_EQ(parent_path("/"), "/");
}

TEST(Files, MakesDirectoriesWithTheirParents) {
  const TempDir dir;
  make_directories(dir / "a/b/c");
  make_directories(dir / "a/b/c/");
  EXPECT_EQ(file_info(dir / "a/b/c")->kind, FileKind::directory);
  write_text(dir / "f", "");
  EXPECT_EQ(catch_error([&] { make_directories(dir / "f"); }).code(), ErrorCode::conflict);
  EXPECT_EQ(catch_error([&] { make_directories(dir / "f/g"); }).code(), ErrorCode::conflict);
  const SyscallFault fault("mkdir", 1, EACCES);
  EXPECT_EQ(catch_error([&] { make_directories(dir / "d"); }).code(), ErrorCode::io);
}

// The current directory can have been removed.
TEST(Files, ADirectoryWithoutAParentIsNotMadeForever) {
  const SyscallFault fault("mkdir", 1, ENOENT, 1000);
  const Error error = catch_error([&] { make_directories("a"); });
  EXPECT_EQ(error.sentence(), "can't make the directory: No such file or directory");
  EXPECT_EQ(error.file(), ".");
}

TEST(Files, RenamesReplaceOrRefuse) {
  const TempDir dir;
  write_text(dir / "a", "A");
  write_text(dir / "b", "B");
  EXPECT_EQ(catch_error([&] { rename_noreplace(dir / "a", dir / "b"); }).code(),
            ErrorCode::conflict);
  rename_noreplace(dir / "a", dir / "c");
  rename_path(dir / "c", dir / "b");
  EXPECT_EQ(read_text(dir / "b"), "A");
  EXPECT_EQ(list_directory(dir.path()), (Names{"b"}));
  EXPECT_EQ(catch_error([&] { rename_path(dir / "x", dir / "y"); }).code(), ErrorCode::io);
  EXPECT_EQ(catch_error([&] { rename_noreplace(dir / "x", dir / "y"); }).code(), ErrorCode::io);
  EXPECT_EQ(catch_error([&] { rename_exchange(dir / "x", dir / "b"); }).code(), ErrorCode::io);
}

TEST(Files, RenamesWorkWithoutTheNewSystemCall) {
  for (const int unknown : {EINVAL, ENOSYS, ENOTSUP}) {
    SCOPED_TRACE(unknown);
    const TempDir dir;
    write_text(dir / "a", "A");
    write_text(dir / "b", "B");
    {
      const SyscallFault fault("renameat2", 1, unknown, 9);
      EXPECT_EQ(catch_error([&] { rename_noreplace(dir / "a", dir / "b"); }).code(),
                ErrorCode::conflict);
      rename_noreplace(dir / "a", dir / "c");
      EXPECT_FALSE(rename_exchange(dir / "c", dir / "b"));
    }
    EXPECT_EQ(read_text(dir / "b"), "A");
    EXPECT_EQ(read_text(dir / "c"), "B");
    EXPECT_EQ(list_directory(dir.path()), (Names{"b", "c"}));
  }
}

TEST(Files, ExchangeSwapsDirectories) {
  const TempDir dir;
  write_text(dir / "a/f", "A");
  write_text(dir / "b/f", "B");
  rename_exchange(dir / "a", dir / "b");
  EXPECT_EQ(read_text(dir / "b/f"), "A");
  EXPECT_EQ(read_text(dir / "a/f"), "B");
}

TEST(Files, RemovingATreeDoesNotFollowLinks) {
  const TempDir dir;
  write_text(dir / "keep/f", "x");
  write_text(dir / "tree/sub/f", "x");
  std::filesystem::create_directory_symlink(dir / "keep", dir / "tree/link");
  remove_tree(dir / "tree");
  remove_tree(dir / "tree");
  EXPECT_FALSE(exists(dir / "tree"));
  EXPECT_EQ(read_text(dir / "keep/f"), "x");
  EXPECT_NO_THROW(remove_tree(dir / "keep/f/below"));
  {
    // Some systems refuse to unlink a directory as they refuse an immutable file.
    const SyscallFault fault("unlink", 1, EPERM);
    EXPECT_EQ(catch_error([&] { remove_tree(dir / "keep/f"); }).code(), ErrorCode::io);
    EXPECT_EQ(read_text(dir / "keep/f"), "x");
  }
  for (const char* call : {"unlink", "rmdir", "open"}) {
    SCOPED_TRACE(call);
    write_text(dir / "keep/f", "x");
    const SyscallFault fault(call, 1, EACCES);
    EXPECT_EQ(catch_error([&] { remove_tree(dir / "keep"); }).code(), ErrorCode::io);
  }
}

TEST(Files, SyncsDirectoriesAndToleratesFileSystemsThatCannot) {
  const TempDir dir;
  fsync_directory(dir.path());
  EXPECT_EQ(catch_error([&] { fsync_directory(dir / "none"); }).code(), ErrorCode::io);
  {
    const SyscallFault fault("fsync", 1, EINVAL);
    fsync_directory(dir.path());
  }
  {
    const SyscallFault fault("fsync", 1, EIO);
    EXPECT_EQ(catch_error([&] { fsync_directory(dir.path()); }).code(), ErrorCode::io);
  }
  make_directories(dir / "a/b");
  const SyscallFault fault("fsync", 3, EIO);
  EXPECT_EQ(catch_error([&] { sync_tree(dir.path()); }).code(), ErrorCode::io) << "all three";
}

TEST(Files, FreeSpaceIsAskedOfTheNearestParent) {
  const TempDir dir;
  EXPECT_GT(free_bytes(dir.path()), 0U);
  EXPECT_GT(free_bytes(dir / "not/there/yet"), 0U);
  {
    const SyscallFault fault("statvfs", 1, EIO);
    EXPECT_EQ(catch_error([&] { free_bytes(dir.path()); }).code(), ErrorCode::io);
  }
  const SyscallFault fault("statvfs", 1, ENOENT, 1000);
  const Error error = catch_error([&] { free_bytes(dir.path()); });
  EXPECT_EQ(error.sentence(), "can't find the free space: No such file or directory");
  EXPECT_EQ(error.file(), "/");
}

TEST(Files, OnlyAnEmptyDirectoryIsRemovedAsSuch) {
  const TempDir dir;
  write_text(dir / "full/f", "x");
  make_directories(dir / "empty");
  for (const char* name : {"full", "empty", "none"}) remove_empty_directory(dir / name);
  EXPECT_EQ(list_directory(dir.path()), (Names{"full"}));
  const SyscallFault fault("rmdir", 1, EACCES);
  EXPECT_EQ(catch_error([&] { remove_empty_directory(dir / "full"); }).code(), ErrorCode::io);
}

}  // namespace
}  // namespace hfshard
