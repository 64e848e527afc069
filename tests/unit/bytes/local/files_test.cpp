#include "bytes/local/files.h"

#include <cerrno>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "bytes/local/output.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/stat.h>

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

TEST(Files, PathsBeginAndEndWithTheirParts) {
  EXPECT_EQ(join_path("/", "b"), "/b");
  EXPECT_EQ(parent_path("a/b//"), "a");
  EXPECT_EQ(parent_path("//b"), "/");
  EXPECT_EQ(entry_name("a/b"), "b");
  EXPECT_EQ(entry_name("a/b//"), "b");
  EXPECT_EQ(entry_name("b"), "b");
}

TEST(Files, LinksAreReadWithoutFollowingThem) {
  const TempDir dir;
  write_text(dir / "f", "x");
  std::filesystem::create_symlink("no\nwhere", dir / "link");
  EXPECT_EQ(link_target(dir / "link"), "no\nwhere");
  EXPECT_EQ(link_target(dir / "f"), "");
  EXPECT_EQ(link_target(dir / "none"), "");
  EXPECT_EQ(broken_link_hint(dir / "link"),
            "it is a link to \"no\\x0awhere\", which doesn't exist; download the file again");
}

TEST(Files, ATildeThatNoShellExpandedIsExplained) {
  EXPECT_EQ(tilde_hint("~/models"),
            "in quotes, ~ isn't your home directory: write \"$HOME/models\", or ./~/models for a "
            "directory with that name");
  EXPECT_TRUE(tilde_hint("~").starts_with("in quotes, ~ isn't your home directory: "));
  for (const char* other : {"", "~user", "a/~", "./~/models", "/~"})
    EXPECT_EQ(tilde_hint(other), "") << other;
}

TEST(Files, RefusalsNameBothPaths) {
  const TempDir dir;
  write_text(dir / "a", "A");
  write_text(dir / "b", "B");
  const Error taken = catch_error([&] { rename_noreplace(dir / "a", dir / "b"); });
  EXPECT_EQ(taken.sentence(), "the name already exists");
  EXPECT_EQ(taken.file(), dir / "b");
  const std::string quoted = "\"" + dir.path() + "/y\"";
  const auto refused = [](auto action) {
    const Error error = catch_error(action);
    return error.file() + ": " + error.sentence();
  };
  const std::string absent = ": No such file or directory";
  EXPECT_EQ(refused([&] { rename_path(dir / "x", dir / "y"); }),
            dir / "x" + ": can't rename to " + quoted + absent);
  EXPECT_EQ(refused([&] { rename_noreplace(dir / "x", dir / "y"); }),
            dir / "x" + ": can't rename to " + quoted + absent);
  EXPECT_EQ(refused([&] { rename_exchange(dir / "x", dir / "y"); }),
            dir / "x" + ": can't exchange with " + quoted + absent);
  EXPECT_EQ(refused([&] { make_directories(dir / "a/c"); }),
            dir / "a/c" + ": a file has the name of a directory");
  EXPECT_EQ(refused([&] { list_directory(dir / "none"); }), dir / "none" + ": no such directory");
  EXPECT_EQ(refused([&] { list_directory(dir / "a"); }),
            dir / "a" + ": can't list: Not a directory");
}

TEST(Files, ATreeIsSyncedFromItsLeaves) {
  const TempDir dir;
  make_directories(dir / "a/b");
  write_text(dir / "a/b/f", "x");
  const auto failed_at = [&](int nth) {
    const SyscallFault fault("fsync", nth, EIO);
    return catch_error([&] { sync_tree(dir.path()); }).file();
  };
  EXPECT_EQ(failed_at(1), dir / "a/b");
  EXPECT_EQ(failed_at(2), dir / "a");
  EXPECT_EQ(failed_at(3), dir.path());
}

TEST(Files, TheStateOfAFileHasItsLinksAndItsMode) {
  const TempDir dir;
  write_text(dir / "f", "abc");
  std::filesystem::permissions(dir / "f", std::filesystem::perms::owner_read);
  std::filesystem::create_hard_link(dir / "f", dir / "g");
  const auto info = file_info(dir / "f");
  EXPECT_EQ(info->state.links, 2U);
  EXPECT_EQ(info->state.mode & 0777U, 0400U);
  EXPECT_EQ(info->state.owner, static_cast<std::uint64_t>(::geteuid()));
  EXPECT_GT(info->state.ctime_ns, 0);
  EXPECT_EQ(file_info(dir / "g")->stamp, info->stamp);
  write_text(dir / "h", "abc");
  EXPECT_NE(file_info(dir / "h")->stamp.inode, info->stamp.inode);
}

TEST(Files, NewOnesHaveTheirModes) {
  const TempDir dir;
  const mode_t before = ::umask(0);
  make_directories(dir / "usual/below");
  make_directories(dir / "own/below", 0700);
  { const OutputFile file(dir / "f"); }
  write_file_durably(dir / "g", "x");
  EXPECT_TRUE(create_file_durably(dir / "h", "x"));
  ::umask(before);
  const auto mode = [&](const char* name) { return file_info(dir / name)->state.mode & 0777U; };
  EXPECT_EQ(mode("usual"), 0755U);
  EXPECT_EQ(mode("usual/below"), 0755U);
  EXPECT_EQ(mode("own"), 0700U);
  EXPECT_EQ(mode("own/below"), 0700U);
  for (const char* name : {"f", "g", "h"}) EXPECT_EQ(mode(name), 0644U) << name;
}

TEST(Files, ADirectoryCanBeALinkToOne) {
  const TempDir dir;
  make_directories(dir / "d");
  std::filesystem::create_directory_symlink("d", dir / "link");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  EXPECT_NO_THROW(make_directories(dir / "link"));
  make_directories(dir / "link/below");
  EXPECT_TRUE(is_directory(dir / "d/below"));
  EXPECT_TRUE(is_directory(dir / "link"));
  EXPECT_FALSE(is_directory(dir / "dangling"));
  EXPECT_FALSE(is_directory(dir / "none"));
  EXPECT_EQ(catch_error([&] { make_directories(dir / "dangling"); }).code(), ErrorCode::conflict);
  remove_tree(dir / "link");
  EXPECT_EQ(list_directory(dir.path()), (Names{"d", "dangling"}));
  EXPECT_TRUE(is_directory(dir / "d/below"));
}

}  // namespace
}  // namespace hfshard
