// Bytes that came over a network, kept for the next run.

#include "bytes/local/arrivals.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/temp_dir.h"

#include "hfshard/io.h"

namespace hfshard {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

constexpr std::uint64_t kMost = std::uint64_t{64} << 20;
constexpr std::uint64_t kRecord = std::uint64_t{256} << 10;

Arrivals open(const TempDir& directory, std::uint64_t most = kMost) {
  return {directory.path(), "arrived.0-1", most, milliseconds(0)};
}

// Bytes of a source file that tell their place.
std::vector<std::byte> bytes_of(std::uint32_t file, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> out;
  for (std::uint64_t at = begin; at < end; ++at)
    out.push_back(static_cast<std::byte>((at * 31 + at / 256 + file) % 251));
  return out;
}

void keep(Arrivals& arrivals, std::uint32_t file, std::uint64_t begin, std::uint64_t end) {
  arrivals.keep(file, begin, bytes_of(file, begin, end));
}

// Fills a range, checks what was found, and returns what is missing.
std::vector<ByteRange> missing(Arrivals& arrivals, std::uint32_t file, std::uint64_t begin,
                               std::uint64_t end) {
  std::vector<std::byte> out(end - begin);
  std::vector<ByteRange> missing = arrivals.fill(file, begin, out);
  for (const ByteRange& range : missing) {
    const auto rest = bytes_of(file, range.begin, range.end);
    std::ranges::copy(rest, out.begin() + static_cast<std::ptrdiff_t>(range.begin - begin));
  }
  EXPECT_EQ(out, bytes_of(file, begin, end));
  return missing;
}

using Ranges = std::vector<ByteRange>;

TEST(Arrivals, TheNextRunFindsThem) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 100, 200);
    keep(arrivals, 0, 300, 300 + 3 * kRecord + 1);
    keep(arrivals, 2, 150, 160);
    EXPECT_EQ(missing(arrivals, 0, 100, 200), Ranges({{100, 200}}));  // only the next run
  }
  Arrivals found = open(directory);
  EXPECT_EQ(found.found_bytes(), 100 + 3 * kRecord + 1 + 10);
  EXPECT_GT(arrived_bytes(directory.path(), "arrived.0-1"), found.found_bytes());
  EXPECT_EQ(missing(found, 0, 100, 200), Ranges());
  EXPECT_EQ(missing(found, 0, 120, 130), Ranges());
  EXPECT_EQ(missing(found, 0, 0, 400), Ranges({{0, 100}, {200, 300}}));
  EXPECT_EQ(missing(found, 0, 310 + kRecord, 400 + 4 * kRecord),
            Ranges({{301 + 3 * kRecord, 400 + 4 * kRecord}}));
  EXPECT_EQ(missing(found, 1, 100, 200), Ranges({{100, 200}}));
  EXPECT_EQ(missing(found, 2, 140, 170), Ranges({{140, 150}, {160, 170}}));
  EXPECT_EQ(missing(found, 3, 0, 10), Ranges({{0, 10}}));
}

TEST(Arrivals, RunsAddUpAndOverlap) {
  const TempDir directory;
  for (const std::uint64_t begin : {0U, 50U, 20U, 170U}) {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, begin, begin + 60);
  }
  Arrivals found = open(directory);
  EXPECT_EQ(list_directory(directory.path()).size(), 4U);
  EXPECT_EQ(missing(found, 0, 0, 240), Ranges({{110, 170}, {230, 240}}));
  EXPECT_EQ(missing(found, 0, 55, 100), Ranges());
}

TEST(Arrivals, OtherSharesHaveTheirOwn) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 0, 100);
  }
  const std::string bytes = read_file(directory / "arrived.0-1.0000");
  for (const char* name :
       {"arrived.0-1.", "arrived.0-1.x", "arrived.0-1.0001x", "arrived.0-10.0001"})
    write_text(directory / name, bytes);
  EXPECT_EQ(open(directory).found_bytes(), 100U);
  Arrivals other(directory.path(), "arrived.1-2", kMost, milliseconds(0));
  EXPECT_EQ(other.found_bytes(), 0U);
  other.remove();
  EXPECT_EQ(open(directory).found_bytes(), 100U);
}

TEST(Arrivals, DamageIsMissing) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    for (const std::uint64_t begin : {0U, 100U, 200U}) keep(arrivals, 0, begin, begin + 100);
  }
  const std::string path = directory / "arrived.0-1.0000";
  const std::string whole = read_file(path);
  ASSERT_EQ(whole.size(), 3 * 124U);
  // Each byte of the second record: its bytes are requested, or those behind it, too.
  for (std::size_t at = 124; at < 248; ++at) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    write_text(path, bad);
    Arrivals found = open(directory);
    const Ranges left = missing(found, 0, 0, 300);
    EXPECT_TRUE(left == Ranges({{100, 200}}) || left == Ranges({{100, 300}})) << at;
  }
  for (const std::size_t size : {0U, 10U, 24U, 130U, 247U}) {
    write_text(path, whole.substr(0, size));
    Arrivals found = open(directory);
    EXPECT_EQ(missing(found, 0, 0, 300), Ranges({{size < 124 ? 0U : 100U, 300}})) << size;
  }
}

TEST(Arrivals, ForgedSizesAreTheEnd) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 0, 100);
  }
  const std::string path = directory / "arrived.0-1.0000";
  const std::string whole = read_file(path);
  for (const std::uint32_t size : {0U, 101U, 0x7fffffffU, 0xffffffffU}) {
    std::string bad = whole;
    std::memcpy(bad.data() + 16, &size, sizeof size);
    write_text(path, bad);
    EXPECT_EQ(open(directory).found_bytes(), 0U) << size;
  }
  const std::uint64_t offset = UINT64_MAX - 50;  // the range would wrap around
  std::string bad = whole;
  std::memcpy(bad.data() + 8, &offset, sizeof offset);
  write_text(path, bad);
  EXPECT_EQ(open(directory).found_bytes(), 0U);
  make_directories(directory / "arrived.0-1.0001");
  EXPECT_EQ(sys::symlink("arrived.0-1.0000", (directory / "arrived.0-1.0002").c_str()), 0);
  write_text(path, whole);
  EXPECT_EQ(open(directory).found_bytes(), 100U);
}

TEST(Arrivals, TheOldestGoFirst) {
  const TempDir directory;
  constexpr std::uint64_t kLittle = 4000;
  for (int run = 0; run < 2; ++run) {
    Arrivals arrivals = open(directory, kLittle);
    for (std::uint64_t at = 0; at < 50; ++at) {
      keep(arrivals, 0, at * 100, at * 100 + 100);
      EXPECT_LE(arrived_bytes(directory.path(), "arrived.0-1"), kLittle);
    }
  }
  Arrivals found = open(directory, kLittle);
  EXPECT_GT(found.found_bytes(), kLittle / 2);
  const Ranges left = missing(found, 0, 0, 5000);
  EXPECT_EQ(left, Ranges({{0, 5000 - found.found_bytes()}}));
  Arrivals tiny = open(directory, 100);
  keep(tiny, 0, 0, 100);
  EXPECT_EQ(open(directory).found_bytes(), found.found_bytes());
}

// A quarter of the whole, with 24 bytes of its own.
TEST(Arrivals, APartHoldsOneRecordOfExactlyItsSize) {
  for (const std::uint64_t most : {4 * 124U, 4 * 124U - 1}) {
    const TempDir directory;
    {
      Arrivals arrivals = open(directory, most);
      keep(arrivals, 0, 0, 100);
    }
    EXPECT_EQ(open(directory).found_bytes(), most == 4 * 124 ? 100U : 0U);
  }
}

TEST(Arrivals, AFullDiskEndsThem) {
  const TempDir directory;
  Arrivals arrivals = open(directory);
  keep(arrivals, 0, 0, 100);
  sys::set_fault_hook([](const char* call, const char* path) {
    const bool hit = std::string_view(call) == "pwrite" &&
                     std::string_view(path).find("arrived.") != std::string_view::npos;
    return hit ? ENOSPC : 0;
  });
  keep(arrivals, 0, 100, 200);
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(list_directory(directory.path()).empty());
  keep(arrivals, 0, 200, 300);
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

TEST(Arrivals, ARemovedDirectoryEndsThem) {
  const TempDir directory;
  std::filesystem::create_directory(directory / "gone");
  Arrivals arrivals(directory / "gone", "arrived.0-1", kMost, milliseconds(0));
  std::filesystem::remove(directory / "gone");
  keep(arrivals, 0, 0, 100);
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

TEST(Arrivals, AreWantedIfNothingWasRecordedForAWhile) {
  const TempDir directory;
  EXPECT_TRUE(open(directory).is_wanted());
  Arrivals patient(directory.path(), "arrived.0-1", kMost, hours(1000));
  EXPECT_FALSE(patient.is_wanted());
  patient.recorded();
  EXPECT_FALSE(patient.is_wanted());
}

TEST(Arrivals, AreWantedAsSoonAsTheTimeHasPassed) {
  using Clock = std::chrono::steady_clock;
  constexpr milliseconds kPatience(40);
  const TempDir directory;
  const auto before = Clock::now();
  Arrivals arrivals(directory.path(), "arrived.0-1", kMost, kPatience);
  // Checks each answer by the times before and after it.
  const auto wait = [&](Clock::time_point earliest) {
    const auto latest = Clock::now();
    for (bool wanted = false; !wanted;) {
      const bool must = Clock::now() - latest >= kPatience;
      wanted = arrivals.is_wanted();
      const bool may = Clock::now() - earliest >= kPatience;
      ASSERT_TRUE(wanted ? may : !must);
    }
  };
  wait(before);
  const auto recorded = Clock::now();
  arrivals.recorded();
  wait(recorded);
}

TEST(Arrivals, AreRemoved) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 0, 100);
  }
  Arrivals found = open(directory);
  keep(found, 0, 100, 200);
  EXPECT_EQ(list_directory(directory.path()).size(), 2U);
  found.remove();
  EXPECT_TRUE(list_directory(directory.path()).empty());
  keep(found, 0, 200, 300);
  EXPECT_TRUE(list_directory(directory.path()).empty());
}

// Another process can have the same share, so its files stay as they are.
TEST(Arrivals, ARunWritesItsOwnFileAfterThoseItFound) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 0, 100);
  }
  std::filesystem::rename(directory / "arrived.0-1.0000", directory / "arrived.0-1.0007");
  const std::string before = read_file(directory / "arrived.0-1.0007");
  Arrivals arrivals = open(directory);
  EXPECT_EQ(list_directory(directory.path()).size(), 1U) << "nothing is kept yet";
  write_text(directory / "arrived.0-1.0008", "of another process");
  keep(arrivals, 0, 100, 200);
  keep(arrivals, 0, 200, 300);
  EXPECT_EQ(list_directory(directory.path()),
            (std::vector<std::string>{"arrived.0-1.0007", "arrived.0-1.0008", "arrived.0-1.0009"}));
  EXPECT_EQ(read_file(directory / "arrived.0-1.0007"), before);
  EXPECT_EQ(read_file(directory / "arrived.0-1.0009").size(), 2 * before.size());
  EXPECT_EQ(arrived_bytes(directory.path(), "arrived.0-1"), 3 * before.size() + 18);
  EXPECT_EQ(arrived_bytes(directory.path(), "arrived.0"), 0U);
}

TEST(Arrivals, ALongRangeIsKeptInRecordsOfAFixedSize) {
  const TempDir directory;
  {
    Arrivals arrivals = open(directory);
    keep(arrivals, 5, 7, 7 + 2 * kRecord);
    keep(arrivals, 5, 7, 7);
  }
  EXPECT_EQ(read_file(directory / "arrived.0-1.0000").size(), 2 * (kRecord + 24));
  Arrivals found = open(directory);
  EXPECT_EQ(found.found_bytes(), 2 * kRecord);
  EXPECT_EQ(missing(found, 5, 0, 10 + 2 * kRecord),
            Ranges({{0, 7}, {7 + 2 * kRecord, 10 + 2 * kRecord}}));
  EXPECT_EQ(missing(found, 5, 7 + kRecord, 8 + kRecord), Ranges());
  EXPECT_EQ(missing(found, 5, 7 + 2 * kRecord, 8 + 2 * kRecord),
            Ranges({{7 + 2 * kRecord, 8 + 2 * kRecord}}));
}

TEST(Arrivals, AnUndamagedRecordOfALaterRunIsFound) {
  const TempDir directory;
  for (int run = 0; run < 2; ++run) {
    Arrivals arrivals = open(directory);
    keep(arrivals, 0, 0, 100);
  }
  for (const char* name : {"arrived.0-1.0000", "arrived.0-1.0001"}) {
    const std::string whole = read_file(directory / name);
    std::string damaged = whole;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    write_text(directory / name, damaged);
    Arrivals found = open(directory);
    EXPECT_EQ(found.found_bytes(), 200U);
    EXPECT_EQ(missing(found, 0, 0, 100), Ranges()) << name;
    write_text(directory / name, whole);
  }
}

}  // namespace
}  // namespace hfshard
