#include "bytes/local/data_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/local/storage.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kSize = 3 * 4096 + 1234;

std::string random_text(std::size_t size) {
  std::mt19937 random(7);
  std::string out(size, '\0');
  for (char& c : out) c = static_cast<char>(random());
  return out;
}

// Returns the bytes of a view, in memory at any address.
std::string seen(const Source& source, std::uint64_t offset, std::uint64_t length,
                 std::size_t shift = 64) {
  std::vector<std::byte> scratch(shift + length + kViewSlackBytes);
  const View view = source.view(offset, length, std::span(scratch).subspan(shift));
  return std::string(as_text(view.bytes()));
}

class DataSourceFile {
 protected:
  DataSourceFile() { write_text(path_, text_); }
  TempDir dir_;
  std::string path_ = dir_ / "f";
  std::string text_ = random_text(kSize);
};
class DataSourceTest : public DataSourceFile, public testing::TestWithParam<IoMode> {};
class DataSourceChoice : public DataSourceFile, public testing::Test {};

TEST_P(DataSourceTest, ViewsAnyRange) {
  const DataSource source(path_, GetParam(), nullptr);
  for (const std::uint64_t begin : {0U, 1U, 511U, 512U, 4095U, 4096U, 4097U, 8200U, 13521U}) {
    for (const std::uint64_t length : {0U, 1U, 512U, 4095U, 4096U, 5000U, 13522U}) {
      if (begin + length > kSize) continue;
      for (const std::size_t shift : {0U, 1U, 64U}) {
        EXPECT_EQ(seen(source, begin, length, shift), text_.substr(begin, length))
            << begin << " " << length;
      }
    }
  }
}

TEST_P(DataSourceTest, ReachesTheEndOfAFileOfAnySize) {
  for (const std::size_t size : {1U, 511U, 512U, 513U, 4096U, 8191U}) {
    write_text(path_, text_.substr(0, size));
    const DataSource source(path_, GetParam(), nullptr);
    EXPECT_EQ(seen(source, 0, size), text_.substr(0, size)) << size;
    EXPECT_EQ(seen(source, size - 1, 1), text_.substr(size - 1, 1)) << size;
  }
}

TEST_P(DataSourceTest, ARangePastTheEndIsCorrupt) {
  const DataSource source(path_, GetParam(), nullptr);
  const Error error = catch_error([&] { seen(source, kSize - 4, 8); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.range(), (ByteRange{kSize - 4, kSize + 4}));
}

TEST_P(DataSourceTest, AFileThatShrankIsCorruptWhereverItEndsNow) {
  for (const std::size_t left : {12'300U, 12'288U, 9000U, 512U, 0U}) {
    write_text(path_, text_);
    const DataSource source(path_, GetParam(), nullptr);
    std::filesystem::resize_file(path_, left);
    const Error error = catch_error([&] { seen(source, 5000, kSize - 5000); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt) << left;
    EXPECT_EQ(error.sentence(), "the file shrank while hfshard read it") << left;
    EXPECT_EQ(error.file(), path_);
    EXPECT_EQ(error.total_bytes(), left);
  }
}

TEST_P(DataSourceTest, HintsChangeNothing) {
  const auto behind = std::make_shared<DropBehind>(4096);
  const DataSource source(path_, GetParam(), behind);
  source.will_need(0, 0);
  source.will_need(1, 5000);
  source.will_need(5, UINT64_MAX);
  for (int i = 0; i < 3; ++i) source.done_with(1, 5000);
  EXPECT_EQ(seen(source, 0, kSize), text_);
}

TEST_P(DataSourceTest, InterruptedCallsAreRepeatedAndFailedOnesAreIo) {
  const DataSource source(path_, GetParam(), nullptr);
  const char* call = source.mode() == IoMode::mmap ? "madvise" : "pread";
  {
    const SyscallFault fault(call, 1, EINTR, 2);
    EXPECT_EQ(seen(source, 3, 5000), text_.substr(3, 5000));
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault(call, 1, EIO);
  EXPECT_EQ(catch_error([&] { seen(source, 3, 5000); }).code(), ErrorCode::io);
}

INSTANTIATE_TEST_SUITE_P(Modes, DataSourceTest,
                         testing::Values(IoMode::automatic, IoMode::direct, IoMode::buffered,
                                         IoMode::mmap),
                         [](const auto& mode) { return std::string(to_string(mode.param)); });

TEST_F(DataSourceChoice, AModeThatIsAskedForIsUsedWhereItCanBe) {
  EXPECT_EQ(DataSource(path_, IoMode::buffered, nullptr).mode(), IoMode::buffered);
  EXPECT_EQ(DataSource(path_, IoMode::mmap, nullptr).mode(), IoMode::mmap);
  const SyscallFault fault("open", 2, EINVAL);
  const DataSource source(path_, IoMode::direct, nullptr);
  EXPECT_TRUE(fault.fired()) << "direct reads are tried";
  EXPECT_EQ(source.mode(), IoMode::buffered);
  EXPECT_EQ(source.why(), "the file system refuses direct reads");
}

std::string g_replaced;
int g_opens = 0;

int replace_before_second_open(const char* call, const char* /*path*/) {
  if (std::string_view(call) == "open" && ++g_opens == 2) write_text(g_replaced, "another");
  return 0;
}

TEST_F(DataSourceChoice, AFileThatIsReplacedWhileItIsOpenedIsAChangedSource) {
  if (DataSource(path_, IoMode::direct, nullptr).mode() != IoMode::direct)
    GTEST_SKIP() << "no direct reads here";
  g_replaced = path_;
  g_opens = 0;
  sys::set_fault_hook(replace_before_second_open);
  const Error error = catch_error([&] { const DataSource source(path_, IoMode::direct, nullptr); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "the source changed while hfshard read it");
  EXPECT_EQ(error.file(), path_);
}

// Older kernels don't know the alignment, so it is tried.
TEST_F(DataSourceChoice, AnAlignmentThatIsNotKnownIsFound) {
  {
    const SyscallFault fault("statx", 1, ENOSYS);
    const DataSource source(path_, IoMode::direct, nullptr);
    EXPECT_EQ(seen(source, 700, 5000), text_.substr(700, 5000));
  }
  const DataSource source(path_, IoMode::direct, nullptr);
  if (source.mode() != IoMode::direct) GTEST_SKIP() << "no direct reads here";
  const SyscallFault fault("", 4, EINVAL, 9);  // after two opens and cachestat: statx, pread twice
  const DataSource refused(path_, IoMode::direct, nullptr);
  EXPECT_EQ(refused.mode(), IoMode::buffered);
}

TEST_F(DataSourceChoice, WhatIsCachedIsReadThroughTheCache) {
  const DataSource source(path_, IoMode::automatic, nullptr);
  EXPECT_EQ(source.mode(), IoMode::buffered);
  EXPECT_EQ(source.why(), "in the page cache");
}

TEST_F(DataSourceChoice, WhatIsNotCachedIsReadDirectIfItCanBe) {
  {
    const SyscallFault fault("cachestat", 1, ENOSYS);  // the sample says the same
    EXPECT_EQ(DataSource(path_, IoMode::automatic, nullptr).why(), "in the page cache");
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault("", 2, ENOSYS, 3);  // the 2nd to 4th: cachestat, mincore, open
  const DataSource source(path_, IoMode::automatic, nullptr);
  EXPECT_EQ(source.mode(), IoMode::buffered);
  EXPECT_EQ(source.why(), "the file system refuses direct reads");
  EXPECT_EQ(seen(source, 0, kSize), text_);
}

TEST_F(DataSourceChoice, ARangeThatDirectReadsRefuseIsReadThroughTheCache) {
  const DataSource source(path_, IoMode::direct, nullptr);
  if (source.mode() != IoMode::direct) GTEST_SKIP() << "no direct reads here";
  const SyscallFault fault("pread", 1, EINVAL);
  EXPECT_EQ(seen(source, 700, 5000), text_.substr(700, 5000));
  EXPECT_TRUE(fault.fired());
}

TEST_F(DataSourceChoice, AMappingThatIsRefusedIsReadInstead) {
  const DataSource source(path_, IoMode::mmap, nullptr);
  const SyscallFault fault("mmap", 1, ENODEV);
  EXPECT_EQ(seen(source, 700, 5000), text_.substr(700, 5000));
}

// Populating detects a file that is already short. This one shrinks while its window is in use.
TEST_F(DataSourceChoice, AMappingWhoseFileShrinksIsAnErrorThatNamesIt) {
  const DataSource source(path_, IoMode::mmap, nullptr);
  std::vector<std::byte> scratch(kSize + kViewSlackBytes);
  for (const std::size_t left : {8192U, 100U, 0U}) {
    write_text(path_, text_);
    const DataSource fresh(path_, IoMode::mmap, nullptr);
    const View view = fresh.view(4096, 8192, scratch);
    ASSERT_NO_THROW(fresh.check_used(view, 4096, 8192));
    std::filesystem::resize_file(path_, left);
    const std::string seen_then(as_text(view.bytes()));
    EXPECT_EQ(seen_then.substr(4096), std::string(4096, '\0'));
    const Error error = catch_error([&] { fresh.check_used(view, 4096, 8192); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), path_);
    EXPECT_EQ(error.range(), (ByteRange{4096, 12288}));
    EXPECT_EQ(error.total_bytes(), left);
  }
}

// A writer overwrote the file during a read: the page was gone, but the file is long enough.
TEST_F(DataSourceChoice, AMappingWhoseFileShrankAndGrewIsAChangedSource) {
  const DataSource source(path_, IoMode::mmap, nullptr);
  std::vector<std::byte> scratch(kSize + kViewSlackBytes);
  const View view = source.view(4096, 8192, scratch);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(static_cast<int>(view.bytes()[0]), 0);
  std::filesystem::resize_file(path_, kSize);
  EXPECT_EQ(catch_error([&] { source.check_used(view, 4096, 8192); }).code(), ErrorCode::conflict);
}

TEST_F(DataSourceChoice, AMappedPageThatCannotBeReadIsIo) {
  const FileSource unchanged(path_);
  const Error error = catch_error([&] { unchanged.throw_gone(4096, 8192); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.range(), (ByteRange{4096, 12288}));
}

TEST(DropBehind, ReadPagesLeaveTheCache) {
  const TempDir dir;
  constexpr std::uint64_t kBytes = std::uint64_t{8} << 20;
  write_text(dir / "f", std::string(kBytes, 'x'));
  const FileSource file(dir / "f");
  sys::Descriptor fd(sys::open((dir / "f").c_str(), O_RDWR));
  ASSERT_EQ(sys::fdatasync(fd.get(), "f"), 0);
  drop_from_cache(fd.get(), 0, kBytes);
  if (mostly_cached(fd.get(), kBytes, dir / "f")) GTEST_SKIP() << "the file system is the cache";
  std::string text(kBytes, '\0');
  file.read_at(0, std::as_writable_bytes(std::span(text)));
  ASSERT_TRUE(mostly_cached(fd.get(), kBytes, dir / "f"));
  DropBehind behind(std::uint64_t{1} << 20);
  // Pages that another processor has just touched stay, so this asks more than once.
  for (int round = 0; round < 20 && mostly_cached(fd.get(), kBytes, dir / "f"); ++round) {
    for (std::uint64_t at = 0; at < kBytes; at += 100'000) {
      behind.add(file.descriptor(), at, std::min<std::uint64_t>(100'000, kBytes - at));
    }
  }
  EXPECT_FALSE(mostly_cached(fd.get(), kBytes, dir / "f"));
}

TEST(Storage, AFileIsMostlyCachedIfMoreThanHalfOfItIs) {
  constexpr std::uint64_t kQuarter = std::uint64_t{2} << 20;
  const TempDir dir;
  const std::string path = dir / "f";
  const std::string text(kQuarter, 'x');
  const sys::Descriptor fd(sys::open(path.c_str(), O_RDWR | O_CREAT, sys::kFileMode));
  ASSERT_EQ(sys::ftruncate(fd.get(), 4 * kQuarter, "f"), 0);
  const auto cached = [&] {
    std::uint64_t bytes = 0;
    EXPECT_EQ(sys::cached_bytes(fd.get(), 4 * kQuarter, path.c_str(), &bytes), 0);
    return bytes;
  };
  if (cached() > 0) GTEST_SKIP() << "the system takes holes for cached";
  for (const std::uint64_t quarters : {1U, 2U, 3U, 4U}) {
    const auto offset = static_cast<off_t>((quarters - 1) * kQuarter);
    ASSERT_EQ(sys::pwrite(fd.get(), text.data(), kQuarter, offset, "f"),
              static_cast<ssize_t>(kQuarter));
    for (const int error_number : {0, ENOSYS}) {  // older kernels lack the call
      const SyscallFault fault("cachestat", 1, error_number, 2);
      EXPECT_EQ(cached(), quarters * kQuarter) << error_number;
      EXPECT_EQ(mostly_cached(fd.get(), 4 * kQuarter, path), quarters > 2) << error_number;
    }
  }
  const SyscallFault fault("", 1, ENOSYS, 2);
  EXPECT_FALSE(mostly_cached(fd.get(), 4 * kQuarter, path)) << "nothing is known";
}

TEST(Storage, KnowsItsModesByName) {
  EXPECT_EQ(to_string(IoMode::automatic), "auto");
  EXPECT_EQ(to_string(IoMode::mmap), "mmap");
}

TEST(Storage, ChoicesAreCountedByModeAndReason) {
  std::vector<IoChoice> choices;
  count_choice(choices, IoMode::direct, "a");
  count_choice(choices, IoMode::buffered, "a");
  count_choice(choices, IoMode::direct, "a");
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].files, 2U);
  EXPECT_EQ(choices[1].mode, IoMode::buffered);
  count_choice(choices, IoMode::direct, "b");
  EXPECT_EQ(choices.size(), 3U);
}

TEST_F(DataSourceChoice, IsToldWithItsReason) {
  const auto told = [&](IoMode wanted) {
    const DataSource source(path_, wanted, nullptr);
    const auto choice = source.choice();
    EXPECT_EQ(choice->mode, source.mode());
    EXPECT_EQ(choice->files, 1U);
    EXPECT_EQ(source.takes_hints(), choice->mode != IoMode::direct);
    return choice->why;
  };
  EXPECT_EQ(told(IoMode::buffered), "as asked");
  EXPECT_EQ(told(IoMode::mmap), "as asked");
  EXPECT_EQ(told(IoMode::automatic), "in the page cache");
  const DataSource direct(path_, IoMode::direct, nullptr);
  EXPECT_EQ(told(IoMode::direct),
            direct.mode() == IoMode::direct ? "as asked" : "the file system refuses direct reads");
  EXPECT_FALSE(FileSource(path_).choice());
  EXPECT_TRUE(FileSource(path_).takes_hints());
}

TEST_F(DataSourceChoice, ARangeIsReadWholeWhereDirectReadsAreShort) {
  const DataSource source(path_, IoMode::direct, nullptr);
  for (const int few : {-512, -700, -4096}) {
    const SyscallFault fault("pread", 1, few, 2);
    EXPECT_EQ(seen(source, 700, 9000), text_.substr(700, 9000)) << few;
    EXPECT_TRUE(fault.fired());
  }
}

TEST(Storage, KnowsEachModeAndAlignment) {
  EXPECT_EQ(to_string(IoMode::direct), "direct");
  EXPECT_EQ(to_string(IoMode::buffered), "buffered");
  alignas(64) const std::array<std::byte, 64> block{};
  const std::span<const std::byte> bytes(block);
  EXPECT_TRUE(is_aligned(bytes, 64));
  EXPECT_TRUE(is_aligned(bytes.subspan(32), 32));
  EXPECT_FALSE(is_aligned(bytes.subspan(32), 64));
  EXPECT_FALSE(is_aligned(bytes.subspan(1), 2));
  EXPECT_TRUE(is_aligned(bytes.subspan(1), 1));
}

}  // namespace
}  // namespace hfshard
