#include "bytes/local/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

struct Asked {
  std::vector<ByteRange> ranges;
  std::uint64_t under_way = 0;
  std::uint64_t most_under_way = 0;  // bytes
  int fails_at = -1;
  bool starts = true;
};

// Fills memory with a file's bytes from an offset on. Each run of 64 bytes is different.
void fill(std::uint64_t offset, std::span<std::byte> out) {
  constexpr std::uint64_t kRun = 64;
  while (!out.empty()) {
    const std::size_t count = std::min<std::size_t>(kRun - offset % kRun, out.size());
    std::memset(out.data(), static_cast<int>(offset / kRun * 7 % 251), count);
    out = out.subspan(count);
    offset += count;
  }
}

class FakePending final : public PendingRead {
 public:
  FakePending(Asked& asked, std::uint64_t offset, std::span<std::byte> out, bool fails)
      : asked_(asked), offset_(offset), out_(out), fails_(fails) {
    asked_.under_way += out.size();
    asked_.most_under_way = std::max(asked_.most_under_way, asked_.under_way);
  }
  ~FakePending() override { asked_.under_way -= out_.size(); }
  FakePending(const FakePending&) = delete;
  FakePending& operator=(const FakePending&) = delete;
  void wait() override {
    if (fails_) throw Error(ErrorCode::network, "gone");
    std::call_once(once_, [&] { fill(offset_, out_); });
  }

 private:
  Asked& asked_;
  std::uint64_t offset_;
  std::span<std::byte> out_;
  bool fails_;
  std::once_flag once_;
};

// A remote file that records its requests.
class FarFile final : public SourceFile {
 public:
  explicit FarFile(Asked& asked) : asked_(asked) {}
  std::uint64_t size_bytes() const override { return std::uint64_t{1} << 40; }
  const std::string& name() const override { return name_; }
  void read_at(std::uint64_t, std::span<std::byte>) const override { FAIL(); }
  FileIdentity identity() const override { return {}; }
  void check_unchanged() const override {}
  bool is_far() const noexcept override { return true; }
  std::unique_ptr<PendingRead> start_read(std::uint64_t offset,
                                          std::span<std::byte> out) const override {
    if (!asked_.starts) return nullptr;
    asked_.ranges.push_back({offset, offset + out.size()});
    const bool fails = asked_.fails_at == static_cast<int>(asked_.ranges.size()) - 1;
    return std::make_unique<FakePending>(asked_, offset, out, fails);
  }

 private:
  Asked& asked_;
  std::string name_ = "far";
};

class ListFeed final : public RangeFeed {
 public:
  explicit ListFeed(std::vector<FileRange> ranges) : ranges_(std::move(ranges)) {}
  bool next(FileRange& next) override {
    if (at_ == ranges_.size()) return false;
    next = ranges_[at_++];
    return true;
  }

 private:
  std::vector<FileRange> ranges_;
  std::size_t at_ = 0;
};

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Readers {
  explicit Readers(std::vector<FileRange> ranges, std::uint64_t memory = 64 * kMiB,
                   std::uint64_t request = kMiB)
      : feed(std::move(ranges)) {
    files.push_back(std::make_unique<FarFile>(asked));
    files.push_back(std::make_unique<FarFile>(asked));
    ahead.emplace(files, feed, memory, request);
  }
  // Takes a range and checks every byte of it.
  bool use(const FileRange& range) {
    const auto bytes = ahead->take(range);
    if (!bytes) return false;
    EXPECT_EQ(bytes->size(), range.range.end - range.range.begin);
    std::vector<std::byte> expected(bytes->size());
    fill(range.range.begin, expected);
    EXPECT_EQ(std::memcmp(bytes->data(), expected.data(), expected.size()), 0) << range.range.begin;
    ahead->done(range);
    return true;
  }
  Asked asked;
  std::vector<std::unique_ptr<SourceFile>> files;
  ListFeed feed;
  std::optional<ReadAhead> ahead;
};

FileRange range(std::uint64_t begin, std::uint64_t end, std::uint32_t file = 0) {
  return {file, {begin, end}};
}

TEST(ReadAhead, RangesSideBySideAreOneRead) {
  Readers setup({range(100, 200), range(200, 300), range(400'000, 400'100), range(300, 350)});
  EXPECT_EQ(setup.asked.ranges, (std::vector<ByteRange>{{100, 350}, {400'000, 400'100}}));
  for (const auto& one :
       {range(100, 200), range(200, 300), range(400'000, 400'100), range(300, 350)}) {
    EXPECT_TRUE(setup.use(one));
  }
  EXPECT_EQ(setup.ahead->fed_bytes(), 350U);
  EXPECT_EQ(setup.asked.under_way, 0U) << "memory goes back with the last range";
}

TEST(ReadAhead, SmallGapsAreReadAlongWhileTheyAreFew) {
  // 4 KiB of gap in 8 MiB, then one that is larger than the whole allowance.
  Readers setup({range(0, 4 * kMiB), range(4 * kMiB + 4096, 8 * kMiB), range(9 * kMiB, 10 * kMiB)},
                64 * kMiB, 16 * kMiB);
  EXPECT_EQ(setup.asked.ranges, (std::vector<ByteRange>{{0, 8 * kMiB}, {9 * kMiB, 10 * kMiB}}));
  for (const std::uint64_t gap : {64U << 10, (64U << 10) + 1}) {
    const Readers wide({range(0, 4 * kMiB), range(4 * kMiB + gap, 8 * kMiB)}, 64 * kMiB, 16 * kMiB);
    EXPECT_EQ(wide.asked.ranges.size(), gap == 64U << 10 ? 1U : 2U);
  }
  Readers few({range(0, 100), range(150, 250)});
  EXPECT_EQ(few.asked.ranges, (std::vector<ByteRange>{{0, 100}, {150, 250}}));
}

TEST(ReadAhead, FilesAreApart) {
  Readers setup({range(0, 100), range(100, 200, 1), range(200, 300)});
  EXPECT_EQ(setup.asked.ranges.size(), 3U);
}

TEST(ReadAhead, AReadIsNoLongerThanTwiceWhatIsAskedUnlessOneRangeIs) {
  std::vector<FileRange> ranges;
  for (std::uint64_t k = 0; k < 64; ++k) ranges.push_back(range(k * 100'000, (k + 1) * 100'000));
  ranges.push_back(range(64 * 100'000, 64 * 100'000 + 3 * kMiB));
  Readers setup(ranges);
  for (const ByteRange& one : setup.asked.ranges) {
    EXPECT_LE(one.end - one.begin, one.end > 6'400'000 ? 4 * kMiB : 2 * kMiB);
  }
  EXPECT_LE(setup.asked.ranges.size(), 8U);
  for (const FileRange& one : ranges) EXPECT_TRUE(setup.use(one));
}

TEST(ReadAhead, WhatFollowsEachOtherIsNotCutWhereALookAheadEnds) {
  std::vector<FileRange> ranges;
  for (std::uint64_t k = 0; k < 300; ++k) ranges.push_back(range(k * 300'000, (k + 1) * 300'000));
  Readers setup(ranges, 8 * kMiB);
  for (const FileRange& one : ranges) EXPECT_TRUE(setup.use(one));
  ASSERT_GT(setup.asked.ranges.size(), 20U);
  setup.asked.ranges.pop_back();
  for (const ByteRange& one : setup.asked.ranges) {
    EXPECT_GE(one.end - one.begin, kMiB) << one.begin;
    EXPECT_LE(one.end - one.begin, 2 * kMiB) << one.begin;
  }
}

TEST(ReadAhead, MemoryIsABound) {
  std::vector<FileRange> ranges;
  for (std::uint64_t k = 0; k < 1000; ++k) ranges.push_back(range(k * 100'000, (k + 1) * 100'000));
  Readers setup(ranges, 4 * kMiB);
  EXPECT_LT(setup.asked.ranges.size(), 10U) << "not all of it at once";
  std::size_t alone = 0;
  for (const FileRange& one : ranges) alone += setup.use(one) ? 0U : 1U;
  EXPECT_EQ(alone, 0U) << "in order, everything is there before it is asked for";
  EXPECT_LE(setup.asked.most_under_way, 4 * kMiB);
}

TEST(ReadAhead, WhatIsNotUnderWayIsReadByWhoWantsItAndOnce) {
  std::vector<FileRange> ranges;
  for (std::uint64_t k = 0; k < 100; ++k) ranges.push_back(range(k * kMiB, (k + 1) * kMiB));
  Readers setup(ranges, 8 * kMiB);
  EXPECT_FALSE(setup.ahead->take(range(90 * kMiB, 91 * kMiB)));
  EXPECT_FALSE(setup.ahead->take(range(1, 2))) << "never fed";
  for (const FileRange& one : ranges) {
    if (one.range.begin == 90 * kMiB) continue;
    EXPECT_TRUE(setup.use(one));
  }
  const auto twice = std::ranges::count_if(setup.asked.ranges, [](const ByteRange& one) {
    return one.begin <= 90 * kMiB && one.end >= 91 * kMiB;
  });
  EXPECT_EQ(twice, 0);
}

TEST(ReadAhead, ARangeLargerThanItsMemoryIsLeftToWhoWantsIt) {
  Readers setup({range(0, 100 * kMiB), range(100 * kMiB, 101 * kMiB)}, 8 * kMiB);
  EXPECT_FALSE(setup.ahead->take(range(0, 100 * kMiB)));
  EXPECT_TRUE(setup.use(range(100 * kMiB, 101 * kMiB)));
  Readers exact({range(0, 8 * kMiB)}, 8 * kMiB);
  EXPECT_TRUE(exact.use(range(0, 8 * kMiB)));
}

TEST(ReadAhead, AFileThatStartsNoReadsIsLeftToItsReaders) {
  Asked asked;
  asked.starts = false;
  std::vector<std::unique_ptr<SourceFile>> files;
  files.push_back(std::make_unique<FarFile>(asked));
  ListFeed feed({range(0, 100), range(kMiB, kMiB + 100)});
  ReadAhead ahead(files, feed, 64 * kMiB, kMiB);
  EXPECT_FALSE(ahead.take(range(0, 100)));
  ahead.done(range(0, 100));
  EXPECT_FALSE(ahead.take(range(kMiB, kMiB + 100)));
}

TEST(ReadAhead, ARangeThatIsFedTwiceIsThereTwice) {
  Readers setup({range(0, 100), range(0, 100)});
  EXPECT_TRUE(setup.use(range(0, 100)));
  EXPECT_TRUE(setup.use(range(0, 100)));
  EXPECT_FALSE(setup.use(range(0, 100)));
}

// Tensors can share bytes.
TEST(ReadAhead, ARangeWithinAnotherIsReadWithIt) {
  Readers setup({range(0, 1000), range(100, 200), range(900, 950)});
  ASSERT_EQ(setup.asked.ranges, (std::vector<ByteRange>{{0, 1000}}));
  EXPECT_TRUE(setup.use(range(100, 200)));
  EXPECT_TRUE(setup.use(range(0, 1000)));
  EXPECT_TRUE(setup.use(range(900, 950)));
  EXPECT_EQ(setup.asked.under_way, 0U);
}

// The first range takes all memory, so the others wait for it.
TEST(ReadAhead, RangesThatWereReadAloneAreNotRequestedLater) {
  const FileRange all = range(0, 4 * kMiB);
  const std::uint64_t at = 10 * kMiB;
  const std::vector<FileRange> parts{range(at, at + 100), range(at + 100, at + 200),
                                     range(at + 200, at + 300)};
  const auto asked_without = [&](const std::vector<std::size_t>& alone) {
    Readers setup({all, parts[0], parts[1], parts[2]}, 4 * kMiB);
    for (const std::size_t part : alone) EXPECT_FALSE(setup.ahead->take(parts[part]));
    EXPECT_TRUE(setup.use(all));
    for (std::size_t part = 0; part < parts.size(); ++part) {
      const bool is_alone = std::ranges::find(alone, part) != alone.end();
      EXPECT_EQ(setup.use(parts[part]), !is_alone) << part;
    }
    EXPECT_EQ(setup.asked.under_way, 0U);
    setup.asked.ranges.erase(setup.asked.ranges.begin());
    return setup.asked.ranges;
  };
  using Read = std::vector<ByteRange>;
  EXPECT_EQ(asked_without({}), (Read{{at, at + 300}}));
  EXPECT_EQ(asked_without({0}), (Read{{at + 100, at + 300}}));
  EXPECT_EQ(asked_without({2}), (Read{{at, at + 200}}));
  EXPECT_EQ(asked_without({1}), (Read{{at, at + 300}}));
  EXPECT_EQ(asked_without({0, 1, 2}), Read());
}

TEST(ReadAhead, AFailureIsThrownWhereTheBytesAreWanted) {
  Asked asked;
  asked.fails_at = 1;
  std::vector<std::unique_ptr<SourceFile>> files;
  files.push_back(std::make_unique<FarFile>(asked));
  ListFeed feed({range(0, 100), range(kMiB, kMiB + 100)});
  ReadAhead ahead(files, feed, 64 * kMiB, kMiB);
  EXPECT_TRUE(ahead.take(range(0, 100)));
  EXPECT_EQ(catch_error([&] { ahead.take(range(kMiB, kMiB + 100)); }).code(), ErrorCode::network);
}

TEST(ReadAhead, ServesManyThreadsInAnyOrder) {
  std::mt19937 random(7);
  std::vector<FileRange> ranges;
  std::uint64_t at = 0;
  for (int k = 0; k < 400; ++k) {
    const std::uint64_t length = 1 + random() % 60'000;
    ranges.push_back(range(at, at + length, random() % 2));
    at += length + (random() % 3 == 0 ? random() % 200'000 : 0);
  }
  Readers setup(ranges, 2 * kMiB, 256 << 10);
  std::mutex mutex;
  std::size_t next = 0;
  const auto work = [&] {
    for (;;) {
      std::size_t mine = 0;
      {
        const std::lock_guard lock(mutex);
        if (next == ranges.size()) return;
        mine = next++;
      }
      setup.use(ranges[mine]);
    }
  };
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(setup.asked.under_way, 0U);
}

TEST(ReadAhead, ReadsBeginInTheOrderOfFirstUse) {
  const Readers back({range(5 * kMiB, 5 * kMiB + 100), range(0, 100)});
  EXPECT_EQ(back.asked.ranges, (std::vector<ByteRange>{{5 * kMiB, 5 * kMiB + 100}, {0, 100}}));
  // The second part of the first read is used first.
  const Readers joined({range(100, 200), range(5 * kMiB, 5 * kMiB + 100), range(0, 100)});
  EXPECT_EQ(joined.asked.ranges, (std::vector<ByteRange>{{0, 200}, {5 * kMiB, 5 * kMiB + 100}}));
  const Readers files({range(0, 100, 1), range(0, 100)});
  ASSERT_EQ(files.asked.ranges.size(), 2U);
}

TEST(ReadAhead, ARangeIsTakenOnceAndByItsEnds) {
  Readers setup({range(0, 100), range(100, 300)});
  EXPECT_FALSE(setup.ahead->take(range(0, 300)));
  EXPECT_FALSE(setup.ahead->take(range(0, 50)));
  EXPECT_FALSE(setup.ahead->take(range(0, 100, 1)));
  EXPECT_TRUE(setup.ahead->take(range(0, 100)));
  EXPECT_FALSE(setup.ahead->take(range(0, 100)));
  EXPECT_EQ(setup.asked.under_way, 300U);
  setup.ahead->done(range(0, 100));
  setup.ahead->done(range(0, 100));
  EXPECT_EQ(setup.asked.under_way, 300U) << "the other range isn't used yet";
  EXPECT_TRUE(setup.use(range(100, 300)));
  EXPECT_EQ(setup.asked.under_way, 0U);
}

// One of the two is read alone before memory is free, the other one isn't.
TEST(ReadAhead, ARangeThatIsFedTwiceAndReadAloneOnceIsRequestedOnce) {
  const FileRange all = range(0, 4 * kMiB);
  const FileRange twice = range(10 * kMiB, 10 * kMiB + 100);
  Readers setup({all, twice, twice}, 4 * kMiB);
  EXPECT_FALSE(setup.ahead->take(twice));
  EXPECT_TRUE(setup.use(all));
  EXPECT_TRUE(setup.use(twice));
  EXPECT_FALSE(setup.use(twice));
  EXPECT_EQ(setup.asked.ranges.size(), 2U);
  EXPECT_EQ(setup.ahead->fed_bytes(), 4 * kMiB + 200);
}

// The range at the end of a look-ahead is joined again in the next one, and its gap counts once.
TEST(ReadAhead, AGapOfARangeThatStaysOpenCountsOnce) {
  constexpr std::uint64_t kFar = 20 * kMiB;
  constexpr std::uint64_t kEach = 300'000;
  constexpr std::uint64_t kGap = 60'000;
  const Readers setup({range(0, 7'900'000), range(kFar, kFar + kEach),
                       range(kFar + kEach + kGap, kFar + 2 * kEach + kGap),
                       range(kFar + 2 * kEach + kGap, kFar + 3 * kEach + kGap)});
  EXPECT_EQ(setup.asked.ranges,
            (std::vector<ByteRange>{{0, 7'900'000}, {kFar, kFar + 3 * kEach + kGap}}));
}

// The last use of a joined range decides, not its first one.
TEST(ReadAhead, ARangeThatGoesOnInTheNextLookAheadIsOneRead) {
  constexpr std::uint64_t kFar = 20 * kMiB;
  constexpr std::uint64_t kEach = 300'000;
  const Readers setup({range(kFar, kFar + kEach), range(0, 7'900'000),
                       range(kFar + kEach, kFar + 2 * kEach),
                       range(kFar + 2 * kEach, kFar + 3 * kEach)});
  EXPECT_EQ(setup.asked.ranges, (std::vector<ByteRange>{{0, 7'900'000}, {kFar, kFar + 3 * kEach}}));
}

}  // namespace
}  // namespace hfshard
