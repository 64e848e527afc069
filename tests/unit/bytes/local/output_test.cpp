#include "bytes/local/output.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

TEST(OutputFile, WritesAtOffsetsAndKeepsWhatIsThere) {
  const TempDir dir;
  {
    OutputFile file(dir / "f");
    file.write_at(4, as_bytes("4567"));
    file.sync_data();
    EXPECT_EQ(file.size_bytes(), 8U);
  }
  OutputFile again(dir / "f");
  again.write_at(0, as_bytes("0123"));
  again.write_at(8, {});
  EXPECT_EQ(read_text(dir / "f"), "01234567");
  again.resize(6);
  EXPECT_EQ(read_text(dir / "f"), "012345");
}

// A call can write less than it was given.
TEST(OutputFile, ShortWritesGoOnWhereTheyStopped) {
  const TempDir dir;
  OutputFile file(dir / "f");
  const SyscallFault fault("pwrite", 1, -3, 3);
  file.write_at(1, as_bytes("123456789"));
  EXPECT_TRUE(fault.fired());
  EXPECT_EQ(read_text(dir / "f"), std::string("\0", 1) + "123456789");
}

TEST(OutputFile, AFullDiskIsSaidWithAHintToResume) {
  const TempDir dir;
  OutputFile file(dir / "f");
  const SyscallFault fault("pwrite", 1, ENOSPC);
  const Error error = catch_error([&] { file.write_at(0, as_bytes("x")); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.sentence(), "no space left on device");
  EXPECT_EQ(error.file(), dir / "f");
  EXPECT_NE(error.hint_text().find("continues where it stopped"), std::string::npos);
}

TEST(OutputFile, InterruptedWritesAreRepeatedAndOtherFailuresAreIo) {
  const TempDir dir;
  OutputFile file(dir / "f");
  {
    const SyscallFault fault("pwrite", 1, EINTR, 2);
    file.write_at(0, as_bytes("data"));
  }
  EXPECT_EQ(read_text(dir / "f"), "data");
  const auto code_when = [&](const char* call, auto action, int number = EIO) {
    const SyscallFault fault(call, 1, number);
    return catch_error(action).code();
  };
  EXPECT_EQ(code_when(
                "pwrite", [&] { file.write_at(0, as_bytes("x")); }, EINVAL),
            ErrorCode::io);
  EXPECT_EQ(code_when("pwrite", [&] { file.write_at(0, as_bytes("x")); }), ErrorCode::io);
  EXPECT_EQ(code_when("fdatasync", [&] { file.sync_data(); }), ErrorCode::io);
  EXPECT_EQ(code_when("truncate", [&] { file.resize(1); }), ErrorCode::io);
  EXPECT_EQ(code_when("open", [&] { OutputFile(dir / "g"); }), ErrorCode::io);
}

TEST(OutputFile, DirectWritesAndOthersAreOneFile) {
  const TempDir dir;
  std::vector<std::byte> memory(3 * 4096);
  void* at = memory.data();
  std::size_t room = memory.size();
  std::align(4096, 8192, at, room);
  const auto block = std::span(memory).last(room).first(8192);
  std::fill(block.begin(), block.begin() + 4096, std::byte{'a'});
  std::fill(block.begin() + 4096, block.end(), std::byte{'b'});
  OutputFile file(dir / "f", IoMode::direct);
  file.write_at(4096, block);                      // direct, if possible
  file.write_at(0, block.first(4096));             // direct too
  file.write_at(12'288, block.first(100));         // not a whole block
  file.write_at(12'388, block.subspan(4000, 96));  // not aligned either
  file.sync_data();
  EXPECT_EQ(read_text(dir / "f"),
            std::string(8192, 'a') + std::string(4096, 'b') + std::string(196, 'a'));
  EXPECT_EQ(file.why(),
            file.mode() == IoMode::direct ? "as asked" : "the file system refuses direct writes");
  if (file.mode() != IoMode::direct) return;
  {
    const SyscallFault fault("pwrite", 1, EINVAL);
    file.write_at(0, block.subspan(4096));
  }
  EXPECT_EQ(read_text(dir / "f").substr(4095, 2), "ba");
  const auto sentence_when = [&](int number, int times) {
    const SyscallFault fault("pwrite", 1, number, times);
    return catch_error([&] { file.write_at(0, block.first(4096)); }).sentence();
  };
  EXPECT_EQ(sentence_when(EINVAL, 2), "can't write: Invalid argument") << "refused buffered too";
  EXPECT_EQ(sentence_when(EIO, 1), "can't write: Input/output error") << "not a refusal";
}

TEST(OutputFile, OutputsAreNotMapped) {
  const TempDir dir;
  const OutputFile file(dir / "f", IoMode::mmap);
  EXPECT_EQ(file.mode(), IoMode::buffered);
  EXPECT_EQ(file.why(), "outputs are not mapped");
  EXPECT_EQ(OutputFile(dir / "g", IoMode::buffered).why(), "as asked");
  EXPECT_EQ(OutputFile(dir / "h", IoMode::automatic).why(), "written back at once");
}

TEST(OutputFile, WhereDirectWritesAreRefusedItIsBuffered) {
  const TempDir dir;
  const SyscallFault fault("open", 2, EINVAL);
  OutputFile file(dir / "f", IoMode::direct);
  EXPECT_TRUE(fault.fired());
  EXPECT_EQ(file.mode(), IoMode::buffered);
  EXPECT_EQ(file.why(), "the file system refuses direct writes");
  file.write_at(0, as_bytes("data"));
  EXPECT_EQ(read_text(dir / "f"), "data");
}

TEST(OutputFile, SettlingKeepsTheBytesAndTellsFailures) {
  const TempDir dir;
  OutputFile file(dir / "f");
  file.write_at(0, as_bytes("0123456789"));
  file.settle(0, 10);
  file.settle(5, 5);
  file.drop_cached();
  EXPECT_EQ(read_text(dir / "f"), "0123456789");
  for (const int unknown : {ENOSYS, EINVAL, ESPIPE}) {
    const SyscallFault fault("sync_file_range", 1, unknown);
    file.settle(0, 10);
    EXPECT_TRUE(fault.fired());
  }
  const SyscallFault fault("sync_file_range", 1, EIO);
  EXPECT_EQ(catch_error([&] { file.settle(0, 10); }).code(), ErrorCode::io);
}

TEST(WriteFileDurably, JoinsSmallAndLargePieces) {
  const TempDir dir;
  std::string wanted;
  write_file_durably(dir / "f", [&](const ByteSink& sink) {
    for (std::size_t size : {3U, 1U << 20, 0U, 700'000U, 700'000U, 5U}) {
      std::string piece(size, '\0');
      std::iota(piece.begin(), piece.end(), static_cast<char>(wanted.size()));
      sink(as_bytes(piece));
      wanted += piece;
    }
  });
  EXPECT_EQ(read_text(dir / "f"), wanted);
  write_file_durably(dir / "f", "short");
  EXPECT_EQ(read_text(dir / "f"), "short");
  EXPECT_EQ(list_directory(dir.path()), (std::vector<std::string>{"f"}));
}

// Each call fails once. The file has the old bytes or the new ones, never a mixture.
TEST(WriteFileDurably, AFailureLeavesTheOldOrTheNewFile) {
  int failures = 0;
  for (int nth = 1;; ++nth) {
    const TempDir dir;
    write_text(dir / "f", "old");
    bool failed = false;
    bool fired = false;
    {
      const SyscallFault fault("", nth, EIO);
      try {
        write_file_durably(dir / "f", "the new text");
      } catch (const Error& error) {
        failed = true;
        EXPECT_EQ(error.code(), ErrorCode::io);
      }
      fired = fault.fired();
    }
    const std::string left = read_text(dir / "f");
    EXPECT_TRUE(left == "the new text" || (failed && left == "old")) << nth;
    if (!fired) break;
    EXPECT_TRUE(failed) << nth;
    ++failures;
    write_file_durably(dir / "f", "again");
    EXPECT_EQ(read_text(dir / "f"), "again");
  }
  EXPECT_GE(failures, 6);
}

std::vector<std::string> names_in(const TempDir& dir) { return list_directory(dir.path()); }

TEST(CreateFileDurably, MakesAFileOnceAndLeavesNothingElse) {
  const TempDir dir;
  EXPECT_TRUE(create_file_durably(dir / "f", "first"));
  EXPECT_FALSE(create_file_durably(dir / "f", "second"));
  EXPECT_EQ(read_text(dir / "f"), "first");
  EXPECT_EQ(names_in(dir), std::vector<std::string>{"f"});
}

// Process ids repeat between containers, so names must not depend on them alone.
TEST(CreateFileDurably, OneOfManyWinsAndNobodyFails) {
  const TempDir dir;
  for (int round = 0; round < 50; ++round) {
    const std::string path = dir / std::to_string(round);
    std::atomic<int> made = 0;
    std::atomic<int> failed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        try {
          made += create_file_durably(path, std::string(1000, static_cast<char>('a' + i))) ? 1 : 0;
        } catch (const Error&) {  // counted
          ++failed;
        }
        if (read_text(path).size() != 1000) ++failed;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(made, 1);
    EXPECT_EQ(failed, 0);
  }
  EXPECT_EQ(names_in(dir).size(), 50U);
}

// Simulates another process between two system calls. The hook is a plain function.
std::string taken_before_link;

int take_before_link(const char* call, const char* /*path*/) {
  if (std::string_view(call) != "link" || taken_before_link.empty()) return 0;
  const std::string path = std::exchange(taken_before_link, {});
  EXPECT_TRUE(create_file_durably(path, "of another"));
  return 0;
}

TEST(CreateFileDurably, WhoIsOvertakenLosesAndDoesNotFail) {
  const TempDir dir;
  taken_before_link = dir / "f";
  sys::set_fault_hook(take_before_link);
  EXPECT_FALSE(create_file_durably(dir / "f", "ours"));
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(taken_before_link.empty());
  EXPECT_EQ(read_text(dir / "f"), "of another");
  EXPECT_EQ(names_in(dir), std::vector<std::string>{"f"});
}

TEST(CreateFileDurably, RenamesWhereTheFileSystemHasNoLinks) {
  const TempDir dir;
  for (const int number : {EPERM, ENOTSUP, ENOSYS, EMLINK}) {
    const std::string path = dir / std::to_string(number);
    for (const char* text : {"first", "second"}) {
      const SyscallFault fault("link", 1, number);
      EXPECT_EQ(create_file_durably(path, text), std::string_view(text) == "first");
      EXPECT_TRUE(fault.fired());
    }
    EXPECT_EQ(read_text(path), "first");
  }
  EXPECT_EQ(names_in(dir).size(), 4U);
}

TEST(CreateFileDurably, AFailureLeavesNothing) {
  const TempDir dir;
  for (const char* call : {"open", "pwrite", "fdatasync", "link"}) {
    const SyscallFault fault(call, 1, EIO);
    EXPECT_EQ(catch_error([&] { create_file_durably(dir / "f", "text"); }).code(), ErrorCode::io)
        << call;
    EXPECT_TRUE(names_in(dir).empty()) << call;
  }
}

TEST(CreateFileDurably, ANewNameIsMadeDurable) {
  const TempDir dir;
  const SyscallFault fault("fsync", 1, EIO, 2);
  const Error error = catch_error([&] { create_file_durably(dir / "f", "text"); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_EQ(read_text(dir / "f"), "text");
  EXPECT_FALSE(create_file_durably(dir / "f", "second")) << "nothing new to sync";
}

// Neither a link nor a rename that doesn't replace.
TEST(CreateFileDurably, AFailedRenameIsAnErrorAndNotAnotherOnesFile) {
  const TempDir dir;
  sys::set_fault_hook([](const char* call, const char* /*path*/) {
    if (std::string_view(call) == "link") return EPERM;
    return std::string_view(call) == "renameat2" ? EIO : 0;
  });
  const Error error = catch_error([&] { create_file_durably(dir / "f", "text"); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_TRUE(names_in(dir).empty());
}

TEST(WriteFileDurably, ALongerLeftoverIsNotInTheNewFile) {
  const TempDir dir;
  EXPECT_EQ(temporary_name(dir / "f"), dir / "f.tmp");
  write_text(dir / "f.tmp", "what a killed process left");
  write_file_durably(dir / "f", "new");
  EXPECT_EQ(read_text(dir / "f"), "new");
  EXPECT_EQ(names_in(dir), std::vector<std::string>{"f"});
  const SyscallFault fault("fsync", 1, EIO);
  const Error error = catch_error([&] { write_file_durably(dir / "f", "newer"); });
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_EQ(read_text(dir / "f"), "newer");
}

TEST(OutputFile, FailuresNameTheCall) {
  const TempDir dir;
  OutputFile file(dir / "f");
  EXPECT_EQ(file.path(), dir / "f");
  const auto said = [&](const char* call, auto action) {
    const SyscallFault fault(call, 1, EIO);
    const Error error = catch_error(action);
    EXPECT_EQ(error.file(), dir / "f");
    return error.sentence();
  };
  const std::string why = ": Input/output error";
  EXPECT_EQ(said("pwrite", [&] { file.write_at(0, as_bytes("x")); }), "can't write" + why);
  EXPECT_EQ(said("fdatasync", [&] { file.sync_data(); }), "can't sync" + why);
  EXPECT_EQ(said("truncate", [&] { file.resize(1); }), "can't resize" + why);
  EXPECT_EQ(said("sync_file_range", [&] { file.settle(0, 1); }), "can't write" + why);
  EXPECT_EQ(said("open", [&] { const OutputFile other(dir / "f"); }),
            "can't open for writing" + why);
  EXPECT_EQ(catch_error([&] { file.write_at(UINT64_MAX, as_bytes("x")); }).code(),
            ErrorCode::internal);
}

}  // namespace
}  // namespace hfshard
