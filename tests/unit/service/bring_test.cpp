#include "service/bring.h"

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "bytes/hub/hf_cache.h"
#include "bytes/hub/hf_cache_writer.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/sizes.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

TEST(Bring, ACacheWithJustEnoughSpaceIsEnough) {
  EXPECT_NO_THROW(check_cache_space("cache", 3 * kMiB, 3 * kMiB));
  EXPECT_NO_THROW(check_cache_space("cache", 3 * kMiB, UINT64_MAX));
  EXPECT_NO_THROW(check_cache_space("cache", 0, 0));
}

TEST(Bring, OneByteTooFewIsRefusedWithBothNumbers) {
  const Error error = catch_error([] { check_cache_space("cache", 1025, 1024); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.file(), "cache");
  EXPECT_EQ(error.hint_text(),
            "free some space, set HF_HUB_CACHE to another directory, or pass --include to fetch "
            "some of the files");
  EXPECT_EQ(catch_error([] { check_cache_space("cache", 3 * kMiB, 2 * kMiB); }).sentence(),
            "the download needs 3 MiB, and the cache has 2 MiB free");
  EXPECT_THROW(check_cache_space("cache", 1, 0), Error);
  EXPECT_THROW(check_cache_space("cache", UINT64_MAX, UINT64_MAX - 1), Error);
}

TEST(Bring, MemoryThatTheProcessLeavesIsForDataWithinLimits) {
  EXPECT_EQ(bring_memory_bytes(0), kMiB);
  EXPECT_EQ(bring_memory_bytes(48 * kMiB), kMiB);
  EXPECT_EQ(bring_memory_bytes(50 * kMiB), 2 * kMiB);
  EXPECT_EQ(bring_memory_bytes(431 * kMiB), 383 * kMiB);
  EXPECT_EQ(bring_memory_bytes(UINT64_MAX), 384 * kMiB);
}

// Keeps the progress.
class Progress final : public Reporter {
 public:
  void started(std::uint64_t total_bytes, std::uint64_t already_done_bytes) override {
    ++starts;
    total = total_bytes;
    done = already_done_bytes;
  }
  void advanced(std::uint64_t bytes) override {
    done += bytes;
    if (received) received_bytes = received();
  }
  void linked(const std::function<std::uint64_t()>& bytes) override {
    ++links;
    received = bytes;
  }
  int links = 0;
  std::function<std::uint64_t()> received;
  std::uint64_t received_bytes = 0;
  int starts = 0;
  std::uint64_t total = 0;
  std::uint64_t done = 0;
};

// A cache, and a hub whose files have the texts that their names begin with: "abc.x" has "abc".
class BringTest : public testing::Test {
 protected:
  static std::string text_of(const std::string& path) { return path.substr(0, path.find('.')); }
  static TreeFile file(const std::string& path) {
    const std::string text = text_of(path);
    return {path, text.size(), {}, sha256_hex(text), {}};
  }
  CacheWriter writer() const { return {root_, repo_.name, repo_.commit}; }
  void cache(const std::string& path) const {
    auto out = writer().begin(file(path));
    ASSERT_TRUE(out);
    out->write_at(0, as_bytes(text_of(path)));
    out->finish();
  }
  HubOptions options_for(const OneAnswer& hub) {
    HubOptions options = patient_options(hub);
    options.cache_directory = root_;
    options.stop = &stop_;
    options.note = [this](const std::string& note) {
      notes_.push_back(note);
      if (on_note_) on_note_();
    };
    return options;
  }
  FetchReport bring_with(HubClient& client, const std::vector<std::string>& paths,
                         const std::string& revision = {}) {
    std::vector<TreeFile> files;
    for (const std::string& path : paths) files.push_back(file(path));
    BringOptions asked;
    asked.reporter = &progress_;
    return bring_files(client, repo_, revision, files, files, asked);
  }
  FetchReport bring(const std::vector<std::string>& paths, const std::string& revision = {}) {
    HubClient client(options_for(hub_));
    return bring_with(client, paths, revision);
  }
  std::string ref(const std::string& revision) const {
    return read_text(root_ + "/models--org--name/refs/" + revision);
  }

  TempDir dir_;
  std::string root_ = dir_ / "hub";
  HubRepo repo_{"org/name", kCommitOfBusyHub};
  std::atomic<bool> stop_ = false;
  Progress progress_;
  std::vector<std::string> notes_;
  std::function<void()> on_note_;
  OneAnswer hub_{[](int /*number*/, const OneAnswer::Say& say) {
    const std::string& request = say.request();  // "GET /org/name/resolve/COMMIT/PATH HTTP/1.1"
    const std::string path = request.substr(0, request.find(" HTTP"));
    say_range(text_of(path.substr(path.rfind('/') + 1)), say);
  }};
};

TEST_F(BringTest, CachedFilesCountAsDoneFromTheStart) {
  cache("cached.a");
  const FetchReport report = bring({"cached.a", "new.b"}, "v1");
  EXPECT_EQ(report.model, "org/name");
  EXPECT_EQ(report.commit, kCommitOfBusyHub);
  EXPECT_EQ(report.snapshot, writer().snapshot_path());
  EXPECT_EQ(report.files, 2U);
  EXPECT_EQ(report.bytes, 9U);
  EXPECT_EQ(report.fetched_files, 1U);
  EXPECT_EQ(report.fetched_bytes, 3U);
  EXPECT_EQ(progress_.starts, 1);
  EXPECT_EQ(progress_.total, 9U);
  EXPECT_EQ(progress_.done, 9U);
  EXPECT_EQ(notes_, std::vector<std::string>{"fetched new.b (3 B)"});
  EXPECT_EQ(read_text(report.snapshot + "/new.b"), "new");
  EXPECT_EQ(ref("v1"), kCommitOfBusyHub);
}

TEST_F(BringTest, FilesThatAreAllCachedReportNoProgress) {
  cache("cached.a");
  const FetchReport report = bring({"cached.a"});
  EXPECT_EQ(report.fetched_files, 0U);
  EXPECT_EQ(progress_.starts, 0);
  EXPECT_EQ(progress_.done, 0U);
  EXPECT_EQ(hub_.asked(), 0);
  EXPECT_EQ(ref("main"), kCommitOfBusyHub);
}

TEST_F(BringTest, TwoFilesWithTheSameBytesAreDownloadedOnceAndBothCount) {
  const FetchReport report = bring({"same.a", "same.b"});
  EXPECT_EQ(report.fetched_files, 1U);
  EXPECT_EQ(report.fetched_bytes, 4U);
  EXPECT_EQ(progress_.total, 8U);
  EXPECT_EQ(progress_.done, 8U);
  EXPECT_EQ(read_text(report.snapshot + "/same.b"), "same");
}

TEST_F(BringTest, AStopEndsItEvenIfAllFilesAreCached) {
  cache("cached.a");
  stop_ = true;
  const Error error = catch_error([&] { bring({"cached.a"}); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(error.sentence(), "interrupted");
  EXPECT_FALSE(exists(root_ + "/models--org--name/refs"));
}

TEST_F(BringTest, BytesOfAKilledDownloadAreNotDownloadedAgain) {
  const std::string blobs = root_ + "/models--org--name/blobs/";
  for (const std::string path : {"halfdone.a", "complete.a"}) {
    const TreeFile left = file(path);
    const std::string there = path == "complete.a" ? text_of(path) : "half";
    write_text(blobs + cache_etag(left) + ".01234567.incomplete", there);
    const int asked = hub_.asked();
    const FetchReport report = bring({path});
    EXPECT_EQ(report.fetched_files, 1U);
    EXPECT_EQ(progress_.total, 8U);
    EXPECT_EQ(progress_.done, 8U);
    EXPECT_EQ(hub_.asked() == asked, there.size() == 8) << path;
    EXPECT_EQ(read_text(report.snapshot + "/" + path), text_of(path));
  }
}

TEST_F(BringTest, TheReceivedBytesAreThoseOfOneCall) {
  HubClient client(options_for(hub_));
  bring_with(client, {"new.b"});
  EXPECT_EQ(progress_.links, 2);
  EXPECT_FALSE(progress_.received);
  EXPECT_EQ(progress_.received_bytes, 3U);
  bring_with(client, {"other.c"});
  EXPECT_EQ(progress_.links, 4);
  EXPECT_FALSE(progress_.received);
  EXPECT_EQ(progress_.received_bytes, 5U);
}

// Without it, the Hub's tools take an interrupted download for a complete one.
TEST_F(BringTest, TheListingOfTheCommitIsCachedAndKept) {
  HubClient client(options_for(hub_));
  const std::vector<TreeFile> tree{file("more.a"), file("new.b")};
  const CachedRepo cached(root_, "org/name");
  bring_files(client, repo_, {}, tree, {tree[1]}, {});
  EXPECT_EQ(cached.tree(kCommitOfBusyHub), tree);
  bring_files(client, repo_, {}, {tree[0]}, {tree[0]}, {});
  EXPECT_EQ(cached.tree(kCommitOfBusyHub), tree);
}

// The other download holds the file's lock. The note ends it, or stops this one.
TEST_F(BringTest, AnotherDownloadOfAFileIsAwaited) {
  const std::string waiting = "waiting for another download: " + root_ +
                              "/.locks/models--org--name/" + cache_etag(file("new.b")) + ".lock";
  auto other = writer().begin(file("new.b"));
  ASSERT_TRUE(other);
  on_note_ = [&] { stop_ = true; };
  EXPECT_EQ(catch_error([&] { bring({"new.b"}); }).code(), ErrorCode::cancelled);
  EXPECT_EQ(notes_, std::vector<std::string>{waiting});
  stop_ = false;
  notes_.clear();
  on_note_ = [&] {
    if (!other) return;
    other->write_at(0, as_bytes("new"));
    other->finish();
    other.reset();
  };
  progress_ = {};
  const FetchReport report = bring({"new.b"});
  EXPECT_EQ(notes_, std::vector<std::string>{waiting});
  EXPECT_EQ(report.fetched_files, 0U);
  EXPECT_EQ(report.fetched_bytes, 0U);
  EXPECT_EQ(progress_.done, 3U);
  EXPECT_EQ(hub_.asked(), 0);
}

// An interrupted lock is tried again, like one that is held.
TEST_F(BringTest, ALongWaitIsNotedOnceInALongTime) {
  const SyscallFault busy("flock", 1, EINTR, 4);
  bring({"new.b"});
  EXPECT_TRUE(busy.fired());
  EXPECT_EQ(notes_, (std::vector<std::string>{"waiting for another download: " + root_,
                                              "fetched new.b (3 B)"}));
}

TEST_F(BringTest, PiecesOfALargeFileKeepTheirPlaces) {
  std::string large(2 * kMiB + kMiB / 2, '\0');
  for (std::size_t i = 0; i < large.size(); ++i)
    large[i] = static_cast<char>((i ^ i >> 8 ^ i >> 16) & 0xff);
  const OneAnswer hub([&](int /*number*/, const OneAnswer::Say& say) { say_range(large, say); });
  HubClient client(options_for(hub));
  const std::vector<TreeFile> files{{"large", large.size(), {}, sha256_hex(large), {}}};
  BringOptions asked;
  asked.reporter = &progress_;
  asked.memory_bytes = 1;
  const FetchReport report = bring_files(client, repo_, {}, files, files, asked);
  EXPECT_EQ(report.fetched_bytes, large.size());
  EXPECT_EQ(progress_.done, large.size());
  EXPECT_TRUE(read_text(report.snapshot + "/large") == large);
}

TEST_F(BringTest, AnEmptyFileNeedsNoRequest) {
  const FetchReport report = bring({".empty"});
  EXPECT_EQ(report.fetched_files, 1U);
  EXPECT_EQ(report.fetched_bytes, 0U);
  EXPECT_EQ(notes_, std::vector<std::string>{"fetched .empty (0 B)"});
  EXPECT_EQ(hub_.asked(), 0);
  EXPECT_EQ(read_text(report.snapshot + "/.empty"), "");
}

}  // namespace
}  // namespace hfshard
