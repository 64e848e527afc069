#include "bytes/source.h"

#include <array>
#include <cerrno>
#include <filesystem>
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
  EXPECT_EQ(error.sentence(), "file shrank since it was opened");
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
  EXPECT_EQ(error.sentence(), "cannot read: Input/output error");
}

TEST(FileSource, WhatIsNoFileIsRefused) {
  const TempDir dir;
  EXPECT_EQ(catch_error([&] { FileSource(dir / "none"); }).code(), ErrorCode::not_found);
  EXPECT_EQ(catch_error([&] { FileSource{dir.path()}; }).code(), ErrorCode::bad_input);
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(catch_error([&] { FileSource(dir / "fifo"); }).code(), ErrorCode::bad_input);
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

TEST(MappedBytes, MapsTheBeginning) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  MappedBytes mapped(dir / "f", 4);
  EXPECT_EQ(as_text(mapped.bytes()), "0123");
  MappedBytes moved = std::move(mapped);
  EXPECT_EQ(as_text(moved.bytes()), "0123");
  moved = MappedBytes(dir / "f", 10);
  EXPECT_EQ(as_text(moved.bytes()), "0123456789");
  EXPECT_TRUE(MappedBytes(dir / "f", 0).bytes().empty());
}

TEST(MappedBytes, AShortFileIsCorrupt) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const Error error = catch_error([&] { MappedBytes(dir / "f", 11); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.range(), (ByteRange{0, 11}));
  EXPECT_EQ(error.total_bytes(), 10U);
}

TEST(MappedBytes, AFileThatShrinksBeforeItIsPopulatedIsCorrupt) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  const SyscallFault fault("madvise", 1, EFAULT);
  EXPECT_EQ(catch_error([&] { MappedBytes(dir / "f", 10); }).code(), ErrorCode::corrupt);
}

TEST(MappedBytes, ReadsInsteadWhereMappingOrPopulatingIsNotSupported) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  for (const auto& [call, number] :
       std::vector<std::pair<const char*, int>>{{"madvise", EINVAL}, {"mmap", ENODEV}}) {
    const SyscallFault fault(call, 1, number);
    EXPECT_EQ(as_text(MappedBytes(dir / "f", 10).bytes()), "0123456789") << call;
    EXPECT_TRUE(fault.fired()) << call;
  }
}

TEST(MappedBytes, OtherFailuresAreIo) {
  const TempDir dir;
  write_text(dir / "f", "0123456789");
  for (const char* call : {"mmap", "madvise", "open"}) {
    const SyscallFault fault(call, 1, ENOMEM);
    const Error error = catch_error([&] { MappedBytes(dir / "f", 10); });
    EXPECT_EQ(error.code(), ErrorCode::io) << call;
    EXPECT_NE(error.hint_text(), "") << call;
  }
}

}  // namespace
}  // namespace hfshard
