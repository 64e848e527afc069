#include "run/commit/journal.h"

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/local/files.h"
#include "bytes/local/output.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include <sys/resource.h>

namespace hfshard {
namespace {

const std::string kPlan(64, 'a');
const std::string kOther(64, 'b');

JournalRecord record(std::uint64_t begin, std::uint64_t end, std::uint64_t slot,
                     std::uint64_t sum) {
  return {begin, end, {{slot, {sum, 0}}}};
}

std::string only_journal(const std::string& directory) {
  for (const std::string& name : list_directory(directory)) {
    if (name.starts_with("journal.")) return join_path(directory, name);
  }
  return {};
}

TEST(Journal, RecordsComeBackAndAddUp) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    writer.append(record(0, 10, 0, 5));
    writer.append(record(10, 30, 0, 7));
  }
  const JournalState state = read_journals(dir.path(), kPlan, 2);
  EXPECT_EQ(state.records, 2U);
  EXPECT_EQ(state.sums[0], (Digest128{12, 0}));
  EXPECT_TRUE(state.covers(0, 30));
  EXPECT_FALSE(state.covers(0, 31));
  EXPECT_EQ(state.done_bytes(), 30U);
}

TEST(Journal, DigestsOfSlotsThatThePlanLacksDoNotCount) {
  const TempDir dir;
  JournalWriter(dir.path(), kPlan, 0, 1).append(record(0, 10, std::uint64_t{1} << 40, 5));
  const JournalState state = read_journals(dir.path(), kPlan, 1);
  EXPECT_EQ(state.sums, std::vector<Digest128>(1));
  EXPECT_TRUE(state.covers(0, 10));
}

TEST(Journal, WorkersAreCountedOnceAndOnlyIfTheyWroteSomething) {
  const TempDir dir;
  JournalWriter(dir.path(), kPlan, 0, 3).append(record(0, 10, 0, 5));
  JournalWriter(dir.path(), kPlan, 0, 3).append(record(10, 20, 0, 5));  // it was started again
  JournalWriter(dir.path(), kPlan, 2, 3).append(record(30, 50, 0, 5));
  JournalWriter(dir.path(), kOther, 1, 3).append(record(20, 30, 0, 5));
  const JournalWriter idle(dir.path(), kPlan, 1, 2);
  const JournalState state = read_journals(dir.path(), kPlan, 2);
  EXPECT_EQ(state.workers, 2U);
  EXPECT_EQ(state.done_bytes(), 40U);
  EXPECT_EQ(state.done_bytes(5, 35), 20U);
  EXPECT_EQ(state.done_bytes(20, 30), 0U);
}

TEST(Journal, ChunkLengthsComeBackBehindTheDigests) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    JournalRecord first = record(0, 10, 0, 5);
    first.digests.push_back({1, {9, 0}});
    first.lengths = {7, 4096, UINT32_MAX};
    writer.append(first);
    JournalRecord second = record(10, 30, 0, 7);
    second.lengths = {1, 2};
    writer.append(second);
  }
  const JournalState state = read_journals(dir.path(), kPlan, 2);
  ASSERT_EQ(state.done.size(), 2U);
  EXPECT_EQ(state.done[0].lengths, (std::vector<std::uint32_t>{7, 4096, UINT32_MAX}));
  EXPECT_EQ(state.done[1].lengths, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(state.sums[0], (Digest128{12, 0}));
  EXPECT_EQ(state.sums[1], (Digest128{9, 0}));
}

TEST(Journal, NothingAfterTheFirstBadRecordIsTrusted) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    writer.append(record(0, 10, 0, 1));
    writer.append(record(10, 20, 0, 2));
    writer.append(record(20, 30, 0, 4));
  }
  std::string text = read_file(only_journal(dir.path()));
  text[text.size() / 2] = static_cast<char>(text[text.size() / 2] ^ 1);
  write_file_durably(only_journal(dir.path()), text);
  const JournalState state = read_journals(dir.path(), kPlan, 1);
  EXPECT_EQ(state.records, 1U);
  EXPECT_FALSE(state.covers(10, 20));
}

// A run writes its addresses in order.
TEST(Journal, NothingAfterARecordThatGoesBackIsTrusted) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    writer.append(record(10, 20, 0, 1));
    writer.append(record(19, 30, 0, 2));
    writer.append(record(30, 40, 0, 4));
  }
  EXPECT_EQ(read_journals(dir.path(), kPlan, 1).records, 1U);
}

long peak_kib() {
  struct rusage use {};
  ::getrusage(RUSAGE_SELF, &use);
  return use.ru_maxrss;
}

// The file is sparse.
TEST(Journal, ALongRecordIsCheckedInPieces) {
  const TempDir dir;
  JournalWriter(dir.path(), kPlan, 0, 1).append(record(0, 10, 0, 1));
  const std::string path = only_journal(dir.path());
  const std::string first = read_file(path);
  std::string text = first + first;
  text[first.size() + 8 + 32] = 10;  // it begins at the end of the first
  text[first.size() + 8 + 40] = 20;
  store_le(&std::as_writable_bytes(std::span(text))[first.size() + 4], std::uint32_t{256} << 20);
  write_file_durably(path, text);
  std::filesystem::resize_file(path, std::uint64_t{1} << 30);
  const long before = peak_kib();
  EXPECT_EQ(read_journals(dir.path(), kPlan, 1).records, 1U);
  EXPECT_LT(peak_kib() - before, 16 << 10);
}

TEST(Journal, ATornTailIsIgnored) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    writer.append(record(0, 10, 0, 1));
    writer.append(record(10, 20, 0, 2));
  }
  std::string text = read_file(only_journal(dir.path()));
  text.resize(text.size() - 3);
  write_file_durably(only_journal(dir.path()), text);
  EXPECT_EQ(read_journals(dir.path(), kPlan, 1).records, 1U);
}

TEST(Journal, AnotherPlansRecordsDoNotCount) {
  const TempDir dir;
  JournalWriter(dir.path(), kOther, 0, 1).append(record(0, 10, 0, 1));
  EXPECT_EQ(read_journals(dir.path(), kPlan, 1).records, 0U);
}

TEST(Journal, APlanThatDiffersInItsLastDigitIsAnotherPlan) {
  for (const std::size_t digit : {0U, 31U, 32U, 63U}) {
    const TempDir dir;
    std::string other = kPlan;
    other[digit] = 'b';
    JournalWriter(dir.path(), other, 0, 1).append(record(0, 10, 0, 1));
    EXPECT_EQ(read_journals(dir.path(), kPlan, 1).records, 0U) << digit;
  }
}

// Among overlapping records, those with the most coverage count, in any order.
TEST(Journal, ALongRecordCountsBeforeAShortOneThatOverlapsItsEnd) {
  const TempDir dir;
  {
    JournalWriter(dir.path(), kPlan, 0, 1).append(record(0, 100, 0, 1));
    JournalWriter(dir.path(), kPlan, 0, 1).append(record(90, 110, 0, 2));
  }
  const JournalState state = read_journals(dir.path(), kPlan, 1);
  EXPECT_EQ(state.done_bytes(), 100U);
  EXPECT_EQ(state.sums[0], (Digest128{1, 0}));
}

TEST(Journal, TwoCopiesOfOneWorkerCountOnce) {
  const TempDir dir;
  {
    JournalWriter first(dir.path(), kPlan, 1, 4);
    JournalWriter second(dir.path(), kPlan, 1, 4);
    first.append(record(0, 10, 0, 1));
    first.append(record(10, 20, 0, 2));
    first.append(record(20, 30, 0, 4));
    second.append(record(0, 18, 0, 100));
    second.append(record(18, 25, 0, 200));
  }
  const JournalState state = read_journals(dir.path(), kPlan, 1);
  EXPECT_TRUE(state.covers(0, 30));
  EXPECT_EQ(state.sums[0], (Digest128{7, 0}));
}

TEST(Journal, EachAttemptOfAWorkerHasItsOwnFile) {
  const TempDir dir;
  for (const std::uint32_t worker : {2U, 2U, 11U}) {
    JournalWriter(dir.path(), kPlan, worker, 12);
  }
  EXPECT_EQ(
      list_directory(dir.path()),
      (std::vector<std::string>{"journal.11-12.0000", "journal.2-12.0000", "journal.2-12.0001"}));
  const Error error = catch_error([&] { JournalWriter(dir / "none", kPlan, 0, 1); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_TRUE(error.sentence().starts_with("can't create the journal: ")) << error.sentence();
  EXPECT_EQ(error.file(), dir / "none/journal.0-1.0000");
}

// Records on both sides of one that is missing.
TEST(Journal, ARangeIsCoveredWithoutGapsOnly) {
  const TempDir dir;
  {
    JournalWriter writer(dir.path(), kPlan, 0, 1);
    using Range = std::pair<std::uint64_t, std::uint64_t>;
    for (const auto& [begin, end] : {Range{0, 10}, {10, 20}, {30, 40}}) {
      JournalRecord each = record(begin, end, 0, 1);
      each.overflows = end;
      writer.append(each);
    }
  }
  for (const std::uint64_t slots : {0U, 1U}) {
    const JournalState state = read_journals(dir.path(), kPlan, slots);
    EXPECT_TRUE(state.covers(0, 20)) << slots;
    EXPECT_TRUE(state.covers(5, 15));
    EXPECT_TRUE(state.covers(30, 40));
    EXPECT_TRUE(state.covers(25, 25)) << "nothing is missing of nothing";
    EXPECT_FALSE(state.covers(0, 21));
    EXPECT_FALSE(state.covers(20, 30));
    EXPECT_FALSE(state.covers(15, 35));
    EXPECT_FALSE(state.covers(29, 31));
    EXPECT_FALSE(state.covers(39, 41));
    EXPECT_EQ(state.done_bytes(15, 32), 7U);
    EXPECT_EQ(state.records, 3U);
    EXPECT_EQ(state.overflows, slots == 0 ? 0U : 70U) << "only with digests";
  }
}

}  // namespace
}  // namespace hfshard
