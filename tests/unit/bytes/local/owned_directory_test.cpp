#include "bytes/local/owned_directory.h"

#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <sched.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Mode = OwnedDirectory::Mode;
using Names = std::vector<std::string>;

ErrorCode refused(const std::string& path, Mode mode = Mode::exclusive) {
  return catch_error([&] { OwnedDirectory::claim(path, mode); }).code();
}

// Simulates another process during the system call that the hook gets.
void (*g_meanwhile)() = nullptr;
std::string_view g_call;
std::string g_path;

int interrupt_once(const char* call, const char* /*path*/) {
  if (g_meanwhile == nullptr || g_call != call) return 0;
  void (*const meanwhile)() = g_meanwhile;
  g_meanwhile = nullptr;
  meanwhile();
  return 0;
}

struct Meanwhile {
  Meanwhile(std::string_view call, std::string path, void (*what)()) {
    g_call = call;
    g_path = std::move(path);
    g_meanwhile = what;
    sys::set_fault_hook(&interrupt_once);
  }
  ~Meanwhile() { sys::set_fault_hook(nullptr); }
  Meanwhile(const Meanwhile&) = delete;
  Meanwhile& operator=(const Meanwhile&) = delete;
};

void remove_it() { std::filesystem::remove_all(g_path); }

TEST(OwnedDirectory, ExcludesOthersUntilItEnds) {
  const TempDir dir;
  const std::string path = dir / "a/b";
  {
    const OwnedDirectory first = OwnedDirectory::claim(path, Mode::exclusive);
    EXPECT_TRUE(first.held());
    for (const auto mode : {Mode::exclusive, Mode::shared}) {
      const Error error = catch_error([&] { OwnedDirectory::claim(path, mode); });
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(error.file(), path);
      EXPECT_EQ(catch_error([&] { OwnedDirectory::find(path, mode); }).code(), ErrorCode::conflict);
    }
  }
  const OwnedDirectory one = OwnedDirectory::claim(path, Mode::shared);
  const OwnedDirectory two = OwnedDirectory::claim(path, Mode::shared);
  EXPECT_EQ(refused(path), ErrorCode::conflict);
}

TEST(OwnedDirectory, AFileSystemWithoutLocksProtectsNothing) {
  const TempDir dir;
  {
    const SyscallFault fault("flock", 1, ENOLCK);
    EXPECT_FALSE(OwnedDirectory::claim(dir / "a", Mode::exclusive).held());
  }
  const SyscallFault fault("flock", 1, EIO);
  EXPECT_EQ(refused(dir / "a"), ErrorCode::io);
}

TEST(OwnedDirectory, WhatIsNotThereIsNotFoundAndNotMade) {
  const TempDir dir;
  EXPECT_FALSE(OwnedDirectory::find(dir / "none", Mode::exclusive).has_value());
  EXPECT_FALSE(exists(dir / "none"));
}

// A process can have died between making the directory and making the marker.
TEST(OwnedDirectory, AnEmptyDirectoryIsTakenOver) {
  const TempDir dir;
  make_directories(dir / "a");
  make_directories(dir / "b");
  OwnedDirectory::claim(dir / "a", Mode::exclusive);
  EXPECT_TRUE(OwnedDirectory::find(dir / "b", Mode::exclusive).has_value());
  write_text(dir / "a/f", "x");
  EXPECT_EQ(OwnedDirectory::claim(dir / "a", Mode::exclusive).list(), (Names{"f"}));
}

TEST(OwnedDirectory, AnythingWithoutTheMarkerIsRefusedAndStays) {
  const TempDir dir;
  write_text(dir / "foreign/lock", "mine");
  write_text(dir / "file", "mine");
  write_text(dir / "to/f", "mine");
  std::filesystem::create_directory_symlink(dir / "to", dir / "link");
  OwnedDirectory::claim(dir / "ours", Mode::exclusive);
  std::filesystem::create_directory_symlink(dir / "ours", dir / "link_to_ours");
  std::filesystem::create_directory_symlink(dir / "nowhere", dir / "dangling");
  for (const char* name : {"foreign", "file", "link", "link_to_ours", "dangling"}) {
    SCOPED_TRACE(name);
    const Error error = catch_error([&] { OwnedDirectory::claim(dir / name, Mode::shared); });
    EXPECT_EQ(error.code(), ErrorCode::conflict);
    EXPECT_EQ(error.file(), dir / name);
    EXPECT_EQ(catch_error([&] { OwnedDirectory::find(dir / name, Mode::shared); }).code(),
              ErrorCode::conflict);
  }
  EXPECT_EQ(list_directory(dir / "foreign"), (Names{"lock"}));
  EXPECT_EQ(list_directory(dir / "to"), (Names{"f"}));
  EXPECT_FALSE(exists(dir / "nowhere"));
}

// The lock's owner removes the directory after this process opens the file and before it locks it.
// A lock on a file without a name would protect nothing.
TEST(OwnedDirectory, ALockOnAFileThatIsGoneDoesNotCount) {
  const TempDir dir;
  const std::string path = dir / "a";
  OwnedDirectory::claim(path, Mode::exclusive);
  {
    const Meanwhile removed("flock", path, remove_it);
    const OwnedDirectory taken = OwnedDirectory::claim(path, Mode::exclusive);
    EXPECT_TRUE(exists(join_path(path, OwnedDirectory::kMarker)));
    EXPECT_EQ(refused(path), ErrorCode::conflict) << "two hold the lock";
  }
  {
    const Meanwhile replaced("flock", path, [] {
      remove_it();
      OwnedDirectory::claim(g_path, Mode::exclusive);
    });
    const OwnedDirectory taken = OwnedDirectory::claim(path, Mode::exclusive);
    EXPECT_EQ(refused(path), ErrorCode::conflict) << "two hold the lock";
  }
  const Meanwhile removed("flock", path, remove_it);
  EXPECT_FALSE(OwnedDirectory::find(path, Mode::exclusive).has_value());
  EXPECT_FALSE(exists(path));
}

TEST(OwnedDirectory, ADirectoryThatGoesAwayBeforeItsMarkerIsMadeIsMadeAgain) {
  const TempDir dir;
  make_directories(dir / "a");
  const Meanwhile removed("open", dir / "a", remove_it);
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", Mode::exclusive);
  EXPECT_EQ(refused(dir / "a"), ErrorCode::conflict);
}

int g_opens_before = 0;

// After the open of the directory and of its marker, the names are listed and the marker is made.
TEST(OwnedDirectory, AMarkerThatAnotherMakesMeanwhileIsLocked) {
  for (const int before : {2, 3}) {
    SCOPED_TRACE(before);
    const TempDir dir;
    g_path = dir / "a";
    g_opens_before = before;
    sys::set_fault_hook([](const char* call, const char* /*path*/) {
      if (std::string_view(call) == "open" && g_opens_before-- == 0)
        write_text(join_path(g_path, OwnedDirectory::kMarker), "");
      return 0;
    });
    const OwnedDirectory taken = OwnedDirectory::claim(g_path, Mode::exclusive);
    sys::set_fault_hook(nullptr);
    EXPECT_LT(g_opens_before, 0);
    EXPECT_TRUE(taken.held());
    EXPECT_EQ(refused(g_path), ErrorCode::conflict);
  }
}

TEST(OwnedDirectory, OneThatIsLockedIsInUse) {
  const TempDir dir;
  EXPECT_FALSE(OwnedDirectory::in_use(dir / "a"));
  for (const Mode mode : {Mode::exclusive, Mode::shared}) {
    {
      const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", mode);
      const OwnedDirectory other = OwnedDirectory::claim(dir / "b", mode);
      EXPECT_TRUE(OwnedDirectory::in_use(dir / "a"));
    }
    EXPECT_FALSE(OwnedDirectory::in_use(dir / "a"));
    const OwnedDirectory other = OwnedDirectory::claim(dir / "b", mode);
    EXPECT_FALSE(OwnedDirectory::in_use(dir / "a"));
  }
}

// Mounts a file system at root/stacked that lies on two others. Its files have one device for
// stat, and another one in /proc/locks. Returns false if this process may not.
bool mount_stacked(const std::string& root) {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  write_text("/proc/self/setgroups", "deny");
  write_text("/proc/self/uid_map", "0 " + user + " 1");
  write_text("/proc/self/gid_map", "0 " + group + " 1");
  const std::string upper = root + "/upper";
  if (::mount("tmpfs", upper.c_str(), "tmpfs", 0, nullptr) != 0) return false;
  for (const char* name : {"/files", "/work"}) make_directories(upper + name);
  const std::string layers = "lowerdir=" + root + "/lower,upperdir=" + upper +
                             "/files,workdir=" + upper + "/work,xino=off";
  return ::mount("overlay", (root + "/stacked").c_str(), "overlay", 0, layers.c_str()) == 0;
}

// Returns whether a directory that a child claims there is in use for it. Empty if the child can't
// mount anything.
std::optional<bool> in_use_on_stacked(const std::string& root) {
  constexpr int kRefused = 9;
  const pid_t child = ::fork();
  if (child == 0) {
    int status = kRefused;
    try {
      if (mount_stacked(root)) {
        const std::string path = root + "/stacked/a";
        const OwnedDirectory taken = OwnedDirectory::claim(path, Mode::exclusive);
        status = OwnedDirectory::in_use(path) ? 0 : 1;
      }
    } catch (const std::exception&) {  // it stays refused
    }
    ::syscall(SYS_exit_group, status);  // the thread sanitizer takes no _exit here
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kRefused) return std::nullopt;
  return WEXITSTATUS(status) == 0;
}

TEST(OwnedDirectory, OneThatIsLockedOnStackedFileSystemsIsInUse) {
  const TempDir dir;
  for (const char* name : {"lower", "upper", "stacked"}) make_directories(dir / name);
  const std::optional<bool> in_use = in_use_on_stacked(dir.path());
  if (!in_use) GTEST_SKIP() << "this system lets the test mount nothing";
  EXPECT_TRUE(*in_use);
}

// Programs of the user may lock the file in their own way.
TEST(OwnedDirectory, ALockOfAnotherKindIsNobodysUse) {
  const TempDir dir;
  { const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", Mode::shared); }
  for (const std::string& name : list_directory(dir / "a")) {
    const sys::Descriptor marker(::open((dir / "a/" + name).c_str(), O_RDWR | O_CLOEXEC));
    struct flock all {};
    all.l_type = F_WRLCK;
    ASSERT_EQ(::fcntl(marker.get(), F_SETLK, &all), 0);
    EXPECT_FALSE(OwnedDirectory::in_use(dir / "a"));
  }
}

// The name gets another owner while the directory is emptied.
TEST(OwnedDirectory, RemovesOnlyFromTheDirectoryThatIsLocked) {
  const TempDir dir;
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", Mode::exclusive);
  write_text(dir / "a/sub/f", "ours");
  write_text(dir / "foreign/sub/f", "mine");
  rename_path(dir / "a", dir / "moved");
  std::filesystem::create_directory_symlink(dir / "foreign", dir / "a");
  taken.remove("sub");
  EXPECT_FALSE(exists(dir / "moved/sub"));
  EXPECT_EQ(read_text(dir / "foreign/sub/f"), "mine");
}

TEST(OwnedDirectory, RemovesItselfUnlessSomebodyTookItOver) {
  const TempDir dir;
  {
    const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", Mode::exclusive);
    taken.remove_itself();
    EXPECT_FALSE(exists(dir / "a"));
  }
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "a", Mode::exclusive);
  const Meanwhile other("rmdir", dir / "a", [] { OwnedDirectory::claim(g_path, Mode::exclusive); });
  taken.remove_itself();
  EXPECT_TRUE(OwnedDirectory::find(dir / "a", Mode::exclusive).has_value());
}

TEST(OwnedDirectory, RefusalsSayWhatToDo) {
  const TempDir dir;
  write_text(dir / "foreign/f", "mine");
  write_text(dir / "file", "mine");
  const auto refusal = [&](const char* name) {
    return catch_error([&] { OwnedDirectory::claim(dir / name, Mode::shared); });
  };
  const std::string away =
      "move it away, or pass another output; hfshard deletes only what it wrote";
  EXPECT_EQ(refusal("foreign").sentence(),
            "a directory that hfshard didn't make has the staging directory's name");
  EXPECT_EQ(refusal("foreign").hint_text(), away);
  EXPECT_EQ(refusal("file").sentence(), "a link or a file has the staging directory's name");
  EXPECT_EQ(refusal("file").hint_text(), away);
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "ours", Mode::exclusive);
  EXPECT_EQ(refusal("ours").sentence(), "another process works in this directory");
  EXPECT_EQ(refusal("ours").hint_text(),
            "wait until it is done, or stop it; its lock ends with the process");
}

TEST(OwnedDirectory, ListsAndRemovesItsEntriesWithoutTheMarker) {
  const TempDir dir;
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "a/b", Mode::exclusive);
  EXPECT_EQ(taken.path(), dir / "a/b");
  EXPECT_EQ(taken.list(), Names());
  for (const char* name : {"z", "hfshard.json", "sub/f"}) write_text(dir / "a/b/" + name, "x");
  EXPECT_EQ(taken.list(), (Names{"hfshard.json", "sub", "z"}));
  taken.remove("sub");
  taken.remove("z");
  taken.remove("none");
  EXPECT_EQ(taken.list(), Names{"hfshard.json"});
  taken.remove_itself();
  EXPECT_EQ(list_directory(dir / "a/b"), Names{"hfshard.json"}) << "it isn't empty";
}

TEST(OwnedDirectory, ItsNamesAreMadeDurable) {
  const TempDir dir;
  const auto failed_at = [&](int nth, const char* name) {
    const SyscallFault fault("fsync", nth, EIO);
    return catch_error([&] { OwnedDirectory::claim(dir / name, Mode::exclusive); }).file();
  };
  EXPECT_EQ(failed_at(1, "a"), dir / "a");
  EXPECT_EQ(failed_at(2, "b"), dir.path());
  const OwnedDirectory taken = OwnedDirectory::claim(dir / "c", Mode::exclusive);
  for (const int unknown : {EINVAL, ENOTSUP}) {
    const SyscallFault fault("fsync", 1, unknown);
    EXPECT_NO_THROW(taken.sync());
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault("fsync", 1, EIO);
  EXPECT_EQ(catch_error([&] { taken.sync(); }).sentence(),
            "can't sync the directory: Input/output error");
}

}  // namespace
}  // namespace hfshard
