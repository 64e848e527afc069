#include "bytes/local/syscalls.h"

#include <bit>
#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/stat.h>
#include <sys/syscall.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(SystemFailure, SaysWhatToDo) {
  const std::pair<int, std::string> hints[] = {
      {EMFILE, "ulimit -n"}, {ENFILE, "fs.file-max"},     {EACCES, "ls -ld"},
      {EPERM, "ls -ld"},     {EROFS, "writable"},         {ENAMETOOLONG, "shorter name"},
      {ENOMEM, "ulimit -d"}, {ENOSPC, "free some space"}, {EDQUOT, "free some space"},
      {EFBIG, "ulimit -f"},  {ELOOP, "pass its target"}};
  for (const auto& [number, words] : hints) {
    const Error error = sys::failure("open", "a", number);
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(error.hint_text().find(words), std::string::npos) << number << error.hint_text();
  }
  EXPECT_EQ(sys::failure("open", "a", EIO).hint_text(), "");
  EXPECT_NE(sys::failure("open", "a", EDQUOT).sentence().find("quota"), std::string::npos);
}

// Some file systems don't tell it.
TEST(DirectAlignment, IsAPowerOfTwoOrUnknown) {
  const TempDir dir;
  const std::string path = dir / "f";
  const sys::Descriptor file(
      sys::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, sys::kFileMode));
  std::uint64_t alignment = 0;
  const bool is_known = sys::direct_alignment(file.get(), path.c_str(), &alignment) == 0;
  EXPECT_TRUE(!is_known || std::has_single_bit(alignment)) << alignment;
}

// An older kernel says of a file that its asker may not write that all of it is cached.
TEST(CachedBytes, AreUnknownWithoutCachestatIfTheFileMayNotBeWritten) {
  const TempDir dir;
  const std::string path = dir / "f";
  write_text(path, std::string(5000, 'x'));
  const sys::Descriptor file(sys::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::uint64_t bytes = 0;
  const auto found = [&] {
    const SyscallFault fault("cachestat", 1, ENOSYS);
    return sys::cached_bytes(file.get(), 5000, path.c_str(), &bytes);
  };
  EXPECT_EQ(found(), 0);
  EXPECT_LE(bytes, 5000U);
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  bool asked = true;
  int answer = 0;
  std::thread([&] {
    constexpr unsigned kNobody = 65534;  // root may write every file; the thread alone becomes it
    if (::getuid() == 0) asked = ::syscall(SYS_setresuid, kNobody, -1, -1) == 0;
    answer = found();
  }).join();
  if (!asked) GTEST_SKIP() << "root can't be another user here";
  EXPECT_EQ(answer, -1);
}

// Other processes write to this file system, so a count is only compared if it stays.
TEST(FreeBytes, AreWithoutBlocksThatAreReservedForRoot) {
  std::uint64_t before = 0;
  unsigned long long found = 0;
  std::uint64_t after = 1;
  for (int i = 0; i < 1'000'000 && before != after; ++i) {
    before = std::filesystem::space("/").available;
    ASSERT_EQ(sys::free_bytes("/", &found), 0);
    after = std::filesystem::space("/").available;
  }
  EXPECT_EQ(before, after);
  EXPECT_EQ(found, before);
}

TEST(SystemFailure, HasTheWordsOfTheSystemAndThePath) {
  const Error error = sys::failure("open the lock", "/a/b", EACCES);
  EXPECT_EQ(error.sentence(), "can't open the lock: Permission denied");
  EXPECT_EQ(error.file(), "/a/b");
  EXPECT_EQ(error.hint_text(),
            "check its permissions and those of the directories above it (ls -ld)");
  const Error full = sys::failure("write", "/a/b", ENOSPC);
  EXPECT_EQ(full.sentence(), "no space left on device");
  EXPECT_EQ(full.file(), "/a/b");
  const Error quota = sys::failure("write", "/a/b", EDQUOT);
  EXPECT_EQ(quota.sentence(), "the disk quota is used up");
  EXPECT_EQ(quota.hint_text(), full.hint_text());
}

TEST(Descriptor, IsClosedOnceByItsLastOwner) {
  const auto is_open = [](int fd) { return ::fcntl(fd, F_GETFD) >= 0; };
  int first = -1;
  int second = -1;
  {
    sys::Descriptor one(sys::open("/dev/null", O_RDONLY | O_CLOEXEC));
    first = one.get();
    sys::Descriptor two(sys::open("/dev/null", O_RDONLY | O_CLOEXEC));
    second = two.get();
    one = std::move(two);
    EXPECT_EQ(one.get(), second);
    EXPECT_TRUE(is_open(second));
    const sys::Descriptor three(std::move(one));
    EXPECT_EQ(three.get(), second);
    EXPECT_TRUE(is_open(second));
  }
  EXPECT_FALSE(is_open(first));
  EXPECT_FALSE(is_open(second));
  sys::Descriptor kept(sys::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int fd = kept.release();
  EXPECT_EQ(kept.get(), -1);
  EXPECT_TRUE(is_open(fd));
  EXPECT_EQ(sys::Descriptor(fd).get(), fd);
}

}  // namespace
}  // namespace hfshard
