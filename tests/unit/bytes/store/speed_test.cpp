#include "bytes/store/speed.h"

#include <cerrno>
#include <memory>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "support/catch_error.h"
#include "support/memory_store.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

std::string file_of(const TempDir& dir, std::uint64_t bytes) {
  const std::string path = dir / "file";
  OutputFile file(path);
  file.resize(bytes);
  const std::vector<std::byte> end(1, std::byte{7});
  file.write_at(bytes - 1, end);
  return path;
}

TEST(Speed, ReadingMovesAFewMegabytesOfALargeFile) {
  const TempDir dir;
  for (const IoMode mode : {IoMode::automatic, IoMode::direct, IoMode::buffered, IoMode::mmap}) {
    const auto trial = try_reading(file_of(dir, 3 * kTrialBytes + 1), mode);
    ASSERT_TRUE(trial);
    EXPECT_GT(trial->bytes.size(), 0U);
    EXPECT_LE(trial->bytes.size(), kTrialBytes);
    EXPECT_GT(trial->bytes_per_second, 0);
  }
}

TEST(Speed, AFileThatIsTooSmallSaysNothing) {
  const TempDir dir;
  EXPECT_FALSE(try_reading(file_of(dir, kTrialBytes - 1), IoMode::automatic));
  EXPECT_TRUE(try_reading(file_of(dir, kTrialBytes), IoMode::automatic));
}

TEST(Speed, WritingLeavesNothing) {
  const TempDir dir;
  EXPECT_GT(try_writing(dir.path()), 0);
  EXPECT_TRUE(list_directory(dir.path()).empty());
}

TEST(Speed, WritingIsMeasuredWithoutDirectWritesToo) {
  const TempDir dir;
  {
    const SyscallFault fault("open", 1, EINVAL);
    EXPECT_GT(try_writing(dir.path()), 0);
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault("", 2, EINVAL, 4);  // statx and two reads, then the second open
  const Error error = catch_error([&] { try_writing(dir.path()); });
  EXPECT_EQ(error.sentence(), "can't make a file without a name in: Invalid argument");
}

TEST(Speed, AWriteThatIsRefusedIsAnError) {
  const TempDir dir;
  for (const char* call : {"pwrite", "fdatasync", "open"}) {
    const SyscallFault fault(call, 1, EIO, 9);
    const Error error = catch_error([&] { try_writing(dir.path()); });
    EXPECT_TRUE(fault.fired()) << call;
    EXPECT_EQ(error.code(), ErrorCode::io) << call;
    EXPECT_EQ(error.file(), dir.path()) << call;
  }
  EXPECT_TRUE(list_directory(dir.path()).empty());
}

TEST(Speed, TheFileSystemsOfTwoPathsAreCompared) {
  const TempDir dir;
  EXPECT_TRUE(on_one_file_system(file_of(dir, 1), dir.path()));
  EXPECT_FALSE(on_one_file_system("/proc/self/status", dir.path()));
  const StorePath far(std::make_shared<MemoryStore>(dir.path()), "tree/file");
  EXPECT_FALSE(on_one_file_system(far, dir.path()));
  const Error error = catch_error([&] { on_one_file_system(dir.path(), dir / "none"); });
  EXPECT_EQ(error.sentence(), "can't stat: No such file or directory");
  EXPECT_EQ(error.file(), dir / "none");
}

// Pieces of one MiB, at quarters of the file without its last MiB.
TEST(Speed, ReadingTakesPiecesFromTheWholeFile) {
  const TempDir dir;
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::string text;
  for (const char letter : std::string("abcdefgh")) text += std::string(kPiece, letter);
  write_text(dir / "f", text);
  const auto trial = try_reading(dir / "f", IoMode::buffered);
  ASSERT_TRUE(trial);
  ASSERT_GE(trial->bytes.size(), kPiece);
  EXPECT_EQ(trial->bytes.size() % kPiece, 0U);
  for (std::size_t at = 0; at < trial->bytes.size(); at += kPiece) {
    const std::size_t from = 7 * kPiece / 4 * (at / kPiece);
    EXPECT_EQ(static_cast<char>(trial->bytes[at]), text[from]) << at;
    EXPECT_EQ(static_cast<char>(trial->bytes[at + kPiece - 1]), text[from + kPiece - 1]) << at;
  }
}

}  // namespace
}  // namespace hfshard
