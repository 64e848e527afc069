#include "bytes/local/source.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include <sys/stat.h>

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string read(const Source& source, std::uint64_t offset, std::size_t size) {
  std::vector<std::byte> out(size);
  source.read_at(offset, out);
  return std::string(as_text(out));
}

TEST(FileSource, ReadsExactRanges) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  EXPECT_EQ(source.size_bytes(), 10U);
  EXPECT_EQ(source.name(), dir / "f");
  EXPECT_EQ(read(source, 0, 10), "0123456789");
  EXPECT_EQ(read(source, 3, 4), "3456");
  EXPECT_EQ(read(source, 10, 0), "");
  source.will_need(0, 10);
  source.will_need(5, UINT64_MAX);
  EXPECT_EQ(source.stamp().size_bytes, 10U);
  EXPECT_GT(source.stamp().mtime_ns, 0);
  EXPECT_NE(source.stamp().inode, 0U);
}

TEST(FileSource, ARangePastTheEndIsCorruptAndNamesTheBytes) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  const Error error = catch_error([&] { read(source, 8, 4); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.file(), dir / "f");
  EXPECT_EQ(error.range(), (ByteRange{8, 12}));
  EXPECT_EQ(error.total_bytes(), 10U);
  EXPECT_EQ(catch_error([&] { read(source, UINT64_MAX, 4); }).range(),
            (ByteRange{UINT64_MAX, UINT64_MAX}));
}

TEST(FileSource, AFileThatShrankIsCorrupt) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  std::filesystem::resize_file(dir / "f", 6);
  EXPECT_EQ(read(source, 0, 6), "012345");
  const Error error = catch_error([&] { read(source, 4, 4); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(), "the file shrank while hfshard read it");
  EXPECT_EQ(error.range(), (ByteRange{4, 8}));
  EXPECT_EQ(error.total_bytes(), 6U);
}

TEST(FileSource, InterruptedReadsAreRepeatedAndFailedOnesAreIo) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  {
    const SyscallFault fault("pread", 1, EINTR, 3);
    EXPECT_EQ(read(source, 0, 10), "0123456789");
  }
  const SyscallFault fault("pread", 1, EIO);
  const Error error = catch_error([&] { read(source, 0, 10); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.file(), dir / "f");
  EXPECT_EQ(error.sentence(), "can't read: Input/output error");
}

TEST(FileSource, WhatIsNoFileIsRefused) {
  const TempDir dir;
  EXPECT_EQ(catch_error([&] { FileSource(dir / "none"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(catch_error([&] { FileSource{dir.path()}; }).code(), ErrorCode::bad_input);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(catch_error([&] { FileSource(dir / "fifo"); }).code(), ErrorCode::bad_input);
  write_text(dir / "plain", "x");
  EXPECT_EQ(catch_error([&] { FileSource(dir / "plain/below"); }).code(), ErrorCode::not_found);
  std::filesystem::create_symlink("nowhere", dir / "link");
  const Error dangling = catch_error([&] { FileSource(dir / "link"); });
  EXPECT_EQ(dangling.code(), ErrorCode::not_found);
  EXPECT_FALSE(dangling.hint_text().empty());
  const SyscallFault fault("open", 1, EACCES);
  EXPECT_EQ(catch_error([&] { FileSource(dir / "f"); }).code(), ErrorCode::io);
}

TEST(FileSource, LinksAreFollowed) {
  const TempDir dir;
  write_text(dir / "blob", "data");
  std::filesystem::create_symlink("blob", dir / "link");
  EXPECT_EQ(read(FileSource(dir / "link"), 0, 4), "data");
}

// A call can read less than requested, at any point.
TEST(FileSource, ShortReadsGoOnWhereTheyStopped) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  const SyscallFault fault("pread", 1, -3, 3);
  EXPECT_EQ(read(source, 1, 9), "123456789");
  EXPECT_TRUE(fault.fired());
}

TEST(FileSource, CopiesARange) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  MappedBytes copy = copy_range(source, 2, 4);
  EXPECT_EQ(as_text(copy.bytes()), "2345");
  MappedBytes moved = std::move(copy);
  EXPECT_EQ(as_text(moved.bytes()), "2345");
  moved = copy_range(source, 0, 10);
  EXPECT_EQ(as_text(moved.bytes()), "0123456789");
  EXPECT_TRUE(copy_range(source, 10, 0).bytes().empty());
  EXPECT_EQ(catch_error([&] { (void)copy_range(source, 8, 4); }).range(), (ByteRange{8, 12}));
  const Error huge = catch_error([&] { (void)copy_range(source, 0, std::uint64_t{1} << 62); });
  EXPECT_EQ(huge.sentence(), "can't reserve memory for: Cannot allocate memory");
  EXPECT_EQ(huge.file(), dir / "f");
  std::filesystem::resize_file(dir / "f", 6);
  EXPECT_EQ(as_text(moved.bytes()), "0123456789");
  EXPECT_EQ(catch_error([&] { (void)copy_range(source, 0, 10); }).code(), ErrorCode::corrupt);
}

TEST(FileSource, AWindowIsNotMappedWhereThatIsNotSupported) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  EXPECT_EQ(as_text(source.map(2, 4)->bytes()), "2345");
  for (const auto& [call, number] :
       std::vector<std::pair<const char*, int>>{{"madvise", EINVAL}, {"mmap", ENODEV}}) {
    const SyscallFault fault(call, 1, number);
    EXPECT_FALSE(source.map(0, 10)) << call;
    EXPECT_TRUE(fault.fired()) << call;
  }
}

// If the thread blocks the signal of a lost page, its mapping would end the process.
TEST(FileSource, AWindowThatCannotBeGuardedIsNotMapped) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  sigset_t bus;
  sigset_t before;
  ::sigemptyset(&bus);
  ::sigaddset(&bus, SIGBUS);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &bus, &before), 0);
  EXPECT_FALSE(source.map(2, 4));
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, &before, nullptr), 0);
  EXPECT_TRUE(source.map(2, 4));
}

TEST(FileSource, AWindowThatCannotBePopulatedIsAnError) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  {
    const SyscallFault fault("madvise", 1, EFAULT);
    EXPECT_EQ(catch_error([&] { source.map(0, 10); }).code(), ErrorCode::corrupt);
  }
  for (const char* call : {"mmap", "madvise"}) {
    const SyscallFault fault(call, 1, ENOMEM);
    const Error error = catch_error([&] { source.map(0, 10); });
    EXPECT_EQ(error.code(), ErrorCode::io) << call;
    EXPECT_NE(error.hint_text(), "") << call;
  }
}

class ChangedFile : public testing::Test {
 protected:
  ChangedFile() { write_text(path_, "0123456789"); }
  ErrorCode after(const std::function<void()>& change) const {
    const FileSource source(path_);
    EXPECT_NO_THROW(source.check_unchanged());
    change();
    const Error error = catch_error([&] { source.check_unchanged(); });
    EXPECT_EQ(error.file(), path_);
    return error.code();
  }
  void edit(std::string_view text) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(3);
    file << text;
  }

  TempDir dir_;
  std::string path_ = dir_ / "f";
};

TEST_F(ChangedFile, IsSeenHoweverItIsChanged) {
  EXPECT_EQ(after([&] { edit("x"); }), ErrorCode::conflict) << "in place";
  EXPECT_EQ(after([&] { write_text(path_, "9876543210"); }), ErrorCode::conflict) << "rewritten";
  EXPECT_EQ(after([&] { std::ofstream(path_, std::ios::app) << "more"; }), ErrorCode::conflict);
  EXPECT_EQ(after([&] { std::filesystem::resize_file(path_, 4); }), ErrorCode::conflict);
  EXPECT_EQ(after([&] { std::filesystem::remove(path_); }), ErrorCode::conflict) << "removed";
}

// The descriptor still leads to the old, unchanged file.
TEST_F(ChangedFile, IsSeenWhenAnotherOneHasItsName) {
  EXPECT_EQ(after([&] {
              write_text(dir_ / "new", "9876543210");
              std::filesystem::last_write_time(dir_ / "new",
                                               std::filesystem::last_write_time(path_));
              std::filesystem::rename(dir_ / "new", path_);
            }),
            ErrorCode::conflict);
}

// `rsync --inplace --times` does this.
TEST_F(ChangedFile, IsSeenWhenItsTimeIsPutBack) {
  EXPECT_EQ(after([&] {
              const auto before = std::filesystem::last_write_time(path_);
              edit("x");
              std::filesystem::last_write_time(path_, before);
            }),
            ErrorCode::conflict);
}

// `hfshard link` gives a source a second name, and so do backups.
TEST_F(ChangedFile, IsNotOneThatGetsAnotherNameOrMode) {
  const FileSource source(path_);
  std::filesystem::create_hard_link(path_, dir_ / "second");
  EXPECT_NO_THROW(source.check_unchanged());
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  EXPECT_NO_THROW(source.check_unchanged());
}

TEST(WasWritten, OnlyIfTheTimeChangedAndNothingElseExplainsIt) {
  const InodeState then{1, 2, 0644, 3, 4};
  EXPECT_FALSE(was_written(then, then));
  EXPECT_TRUE(was_written(then, {5, 2, 0644, 3, 4}));
  EXPECT_FALSE(was_written(then, {5, 3, 0644, 3, 4})) << "another name";
  EXPECT_FALSE(was_written(then, {5, 2, 0600, 3, 4})) << "another mode";
  EXPECT_FALSE(was_written(then, {5, 2, 0644, 6, 4})) << "another owner";
  EXPECT_FALSE(was_written(then, {5, 2, 0644, 3, 6})) << "another group";
}

TEST(FileSource, RefusalsSayWhatToDo) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "d");
  std::filesystem::create_symlink("nowhere", dir / "link");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  const auto refused = [](const std::string& path) {
    const Error error = catch_error([&] { const FileSource source(path); });
    EXPECT_EQ(error.file(), path);
    return error.sentence() + "; " + error.hint_text();
  };
  EXPECT_EQ(refused(dir / "none"), "no such file; ");
  EXPECT_EQ(refused(dir / "d"), "a directory has the name of a file; ");
  EXPECT_EQ(refused(dir / "fifo"),
            "not a regular file; hfshard can't read pipes, sockets and devices; put a file there");
  EXPECT_EQ(
      refused(dir / "link"),
      "no such file; it is a link to \"nowhere\", which doesn't exist; download the file again");
  EXPECT_TRUE(
      refused("~/none").starts_with("no such file; in quotes, ~ isn't your home directory"));
}

TEST(FileSource, ErrorsOfReadsHaveTheirRangeAndAHint) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  {
    const SyscallFault fault("pread", 1, EIO);
    EXPECT_EQ(catch_error([&] { read(source, 2, 5); }).range(), (ByteRange{2, 7}));
  }
  const Error gone = catch_error([&] { source.throw_gone(2, 5); });
  EXPECT_EQ(gone.sentence(), "a mapped page of the file can't be read");
  EXPECT_EQ(gone.total_bytes(), 10U);
  EXPECT_EQ(gone.hint_text(),
            "run the same command again; with --io buffered, the error names the disk's problem");
  std::filesystem::resize_file(dir / "f", 6);
  const std::string wait = "the file may still be downloading; run again when it is complete";
  EXPECT_EQ(catch_error([&] { read(source, 2, 5); }).hint_text(), wait);
  EXPECT_EQ(catch_error([&] { source.throw_gone(2, 5); }).hint_text(), wait);
  EXPECT_EQ(catch_error([&] { source.throw_gone(2, 4); }).code(), ErrorCode::conflict);
  EXPECT_EQ(catch_error([&] { source.map(2, 5); }).hint_text(), wait);
  EXPECT_EQ(catch_error([&] { source.check_unchanged(); }).hint_text(),
            "wait until the download or copy is done and run the same command again");
}

TEST(FileSource, AWindowOfNothingIsEmpty) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const FileSource source(dir / "f");
  const SyscallFault fault("mmap", 1, EIO);
  EXPECT_TRUE(source.map(10, 0)->bytes().empty());
  EXPECT_FALSE(fault.fired());
  EXPECT_EQ(catch_error([&] { source.map(8, 3); }).code(), ErrorCode::corrupt);
}

}  // namespace
}  // namespace hfshard
