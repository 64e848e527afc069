// Files without a name.

#include "bytes/local/scratch_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

namespace hfshard {
namespace {

TEST(ScratchFile, HoldsWhatWasWrittenAndHasNoName) {
  const TempDir directory;
  ScratchFile file("some array");
  file.reset(directory.path(), 10);
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  file.write_at(4, bytes);
  EXPECT_TRUE(list_directory(directory.path()).empty());
  EXPECT_EQ(file.size_bytes(), 10U);
  std::array<std::byte, 10> all{};
  all.fill(std::byte{9});
  file.read_at(0, all);  // zeros around the written bytes
  const std::array<std::byte, 10> wanted = {{{}, {}, {}, {}, bytes[0], bytes[1], bytes[2]}};
  EXPECT_EQ(all, wanted);
  EXPECT_TRUE(file.in_memory(0, 10).empty());
  file.clear();
  EXPECT_EQ(file.size_bytes(), 0U);
}

int g_refused = 0;

TEST(ScratchFile, WhereUnnamedFilesAreUnknownTheNameIsRemovedAtOnce) {
  const TempDir directory;
  ScratchFile file("some array");
  const auto reset = [&](int refused) {
    g_refused = refused;
    sys::set_fault_hook([](const char* call, const char* path) {
      const bool unnamed = std::string_view(path).find("unpacked.") == std::string_view::npos;
      return unnamed && std::string_view(call) == "open" ? g_refused : 0;
    });
    file.reset(directory.path(), 10);
  };
  for (const int unknown : {EOPNOTSUPP, EISDIR, EINVAL}) {
    reset(unknown);
    file.write_at(0, std::array<std::byte, 1>{});
    EXPECT_TRUE(list_directory(directory.path()).empty());
  }
  EXPECT_EQ(catch_error([&] { reset(EACCES); }).file(), directory.path());
  sys::set_fault_hook([](const char* call, const char* path) {
    if (std::string_view(call) != "open") return 0;
    return std::string_view(path).find("unpacked.") == std::string_view::npos ? EINVAL : EACCES;
  });
  const Error neither = catch_error([&] { file.reset(directory.path(), 10); });
  sys::set_fault_hook(nullptr);
  EXPECT_EQ(neither.sentence(), "can't make a scratch file: Permission denied");
  EXPECT_EQ(neither.file(), directory.path());
}

TEST(ScratchFile, InterruptedCallsAreRepeatedAndFailedOnesNameTheArray) {
  const TempDir directory;
  ScratchFile file("some array");
  file.reset(directory.path(), 3);
  const std::array<std::byte, 3> bytes = {std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 3> read{};
  const auto write_and_read = [&] {
    file.write_at(0, bytes);
    file.read_at(0, read);
  };
  for (const char* call : {"pwrite", "pread"}) {
    for (const int step : {EINTR, -1}) {
      read = {};
      const SyscallFault fault(call, 1, step, 2);
      write_and_read();
      EXPECT_TRUE(fault.fired());
      EXPECT_EQ(read, bytes);
    }
    const SyscallFault fault(call, 1, EIO);
    const Error error = catch_error(write_and_read);
    EXPECT_EQ(error.sentence(), std::string_view(call) == "pwrite"
                                    ? "can't unpack some array: Input/output error"
                                    : "can't read the unpacked some array: Input/output error");
    EXPECT_EQ(error.file(), directory.path());
  }
}

TEST(ScratchFile, IsViewedFromItsFileOrFromMemory) {
  const TempDir directory;
  ScratchFile file("some array");
  const std::array<std::byte, 2> bytes = {std::byte{1}, std::byte{2}};
  std::array<std::byte, 10> memory{};
  std::vector<std::byte> scratch(2 + kViewSlackBytes);
  for (const bool in_memory : {false, true}) {
    in_memory ? file.reset_in(memory) : file.reset(directory.path(), 10);
    file.write_at(4, bytes);
    const View view = file.view(4, 2, scratch);
    ASSERT_EQ(view.bytes().size(), 2U);
    EXPECT_EQ(view.bytes()[1], std::byte{2});
    EXPECT_EQ(view.bytes().data() == &memory[4], in_memory);
  }
}

TEST(ScratchFile, InMemoryItKeepsNoFile) {
  const TempDir directory;
  const auto open_files = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_files();
  ScratchFile file("some array");
  file.reset(directory.path(), 10);
  EXPECT_EQ(open_files(), before + 1);
  std::array<std::byte, 10> memory{};
  file.reset_in(memory);
  EXPECT_EQ(open_files(), before);
}

TEST(ScratchFile, UsesMemoryThatItIsGiven) {
  ScratchFile file("some array");
  std::array<std::byte, 10> memory{};
  file.reset_in(memory);
  const std::array<std::byte, 2> bytes = {std::byte{1}, std::byte{2}};
  file.write_at(4, bytes);
  EXPECT_EQ(memory[5], std::byte{2});
  EXPECT_EQ(file.in_memory(4, 6).data(), &memory[4]);
  EXPECT_EQ(file.in_memory(4, 6).size(), 6U);
  std::array<std::byte, 3> read{};
  file.read_at(3, read);
  EXPECT_EQ(read[1], std::byte{1});
}

TEST(ScratchFile, ANewOneHasNothingOfTheOneBefore) {
  const TempDir directory;
  ScratchFile file("some array");
  EXPECT_EQ(file.size_bytes(), 0U);
  EXPECT_EQ(file.name(), "some array");
  EXPECT_FALSE(file.takes_hints());
  std::array<std::byte, 4> memory{std::byte{7}, std::byte{7}, std::byte{7}, std::byte{7}};
  file.reset_in(memory);
  EXPECT_EQ(file.identity().size_bytes, 4U);
  file.reset(directory.path(), 6);
  EXPECT_EQ(file.size_bytes(), 6U);
  EXPECT_TRUE(file.in_memory(0, 4).empty());
  file.write_at(0, memory);
  file.reset(directory.path(), 6);
  std::array<std::byte, 6> read{};
  read.fill(std::byte{9});
  file.read_at(0, read);
  EXPECT_EQ(read, (std::array<std::byte, 6>{}));
}

TEST(ScratchFile, OtherRangesAreABug) {
  const TempDir directory;
  std::array<std::byte, 4> memory{};
  std::vector<std::byte> room(4 + kViewSlackBytes);
  for (const bool in_memory : {false, true}) {
    ScratchFile file("some array");
    in_memory ? file.reset_in(memory) : file.reset(directory.path(), 4);
    const auto code = [](auto action) { return catch_error(action).code(); };
    const auto two = std::span(memory).first(2);
    EXPECT_EQ(code([&] { file.write_at(3, two); }), ErrorCode::internal);
    EXPECT_EQ(code([&] { file.read_at(3, two); }), ErrorCode::internal);
    EXPECT_EQ(code([&] { (void)file.in_memory(3, 2); }), ErrorCode::internal);
    EXPECT_EQ(code([&] { (void)file.view(3, 2, room); }), ErrorCode::internal);
    EXPECT_NO_THROW(file.write_at(2, two));
  }
}

}  // namespace
}  // namespace hfshard
