#include "bytes/hub/hub_store.h"

#include <array>
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/digest.h"
#include "bytes/hub/hub_client.h"
#include "bytes/local/arrivals.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/bytes/hub/one_answer.h"

namespace hfshard {
namespace {

// A header is read ahead only for a file that is still to be opened.
TEST(HubStore, OpeningAnEarlierFileReadsNoHeaderAgain) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(
        fmt::format("HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n"
                    "Content-Range: bytes 0-0/1\r\nConnection: close\r\n"
                    "X-Repo-Commit: {}\r\n\r\nx",
                    kCommitOfBusyHub));
  });
  HubOptions options = patient_options(hub);
  const StorePath model =
      hub_place(std::make_shared<HubClient>(options), {"o/m", kCommitOfBusyHub},
                {{"a.safetensors", 1, {}, {}, {}}, {"b.safetensors", 1, {}, {}, {}}}, {});
  for (const char* name : {"b.safetensors", "a.safetensors"}) EXPECT_EQ((model / name).read(), "x");
  EXPECT_EQ(model.network_use()->data_requests, 2U);
}

// Nor for one of another directory, or one that the cache has.
TEST(HubStore, OnlyTheHeadersOfShardsToBeDownloadedAreReadAhead) {
  const OneAnswer hub([&](int, const OneAnswer::Say& say) { say_range("x", say); });
  const TempDir dir;
  write_text(dir / "b.safetensors", "x");
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), {"o/m", kCommitOfBusyHub},
                {{"a.safetensors", 1, {}, {}, {}},
                 {"b.safetensors", 1, {}, {}, {}},
                 {"d.safetensors", 1, {}, {}, {}},
                 {"e.json", 1, {}, {}, {}},
                 {"sub/c.safetensors", 1, {}, {}, {}}},
                dir.path());
  EXPECT_EQ((model / "a.safetensors").read(), "x");
  EXPECT_EQ((model / "d.safetensors").read(), "x");
  EXPECT_EQ((model / "b.safetensors").read(), "x");
  EXPECT_EQ(model.network_use()->data_requests, 2U);
}

TEST(HubStore, FilesOfAModelHaveTheirPlaceInTheCache) {
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::vector<TreeFile> files{{"sub/f", 1, {}, {}, {}}};
  const StorePath cached = hub_place(nullptr, repo, files, "/cache/x");
  EXPECT_EQ((cached / "sub/f").fetched_path(), "/cache/x/sub/f");
  EXPECT_FALSE((cached / "sub/g").fetched_path());
  EXPECT_FALSE((hub_place(nullptr, repo, files, {}) / "sub/f").fetched_path());
}

TEST(HubStore, AFileOfTheCacheWithAnotherSizeIsNotTheSource) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  HubOptions options = patient_options(hub);
  const TempDir dir;
  write_text(dir / "whole", "c");
  write_text(dir / "longer", "cc");
  const StorePath model =
      hub_place(std::make_shared<HubClient>(options), {"o/m", kCommitOfBusyHub},
                {{"longer", 1, {}, {}, {}}, {"whole", 1, {}, {}, {}}}, dir.path());
  EXPECT_EQ((model / "whole").read(), "c");
  EXPECT_EQ((model / "longer").read(), "x");
}

TEST(HubStore, ADirectoryOfTheCacheIsNotAFileOfItsSize) {
  const TempDir dir;
  std::filesystem::create_directory(dir / "f");
  const std::string bytes(file_info(dir / "f")->stamp.size_bytes, 'x');
  const OneAnswer hub([&](int, const OneAnswer::Say& say) { say_range(bytes, say); });
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), {"o/m", kCommitOfBusyHub},
                {{"f", bytes.size(), {}, {}, {}}}, dir.path());
  EXPECT_EQ((model / "f").read(), bytes);
}

TEST(HubStore, SaysWhatAModelDoesNotHave) {
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::string root = fmt::format("hf://o/m@{}", kCommitOfBusyHub);
  const StorePath model = hub_place(nullptr, repo, {{"sub/f", 1, {}, {}, {}}}, {});
  const Error open = catch_error([&] { (void)(model / "g").open(); });
  EXPECT_EQ(open.code(), ErrorCode::not_found);
  EXPECT_EQ(open.file(), root + "/g");
  EXPECT_EQ(catch_error([&] { (void)(model / "none").list(); }).file(), root + "/none");
  for (const char* directory : {"sub", "sub/", "./sub//"})
    EXPECT_EQ((model / directory).list(), (std::vector<std::string>{"f"})) << directory;
  const Error offline = catch_error([&] { (void)(model / "sub/f").open(); });
  EXPECT_EQ(offline.sentence(), "the cache lacks this file of the model");
  EXPECT_EQ(offline.file(), root + "/sub/f");
  const Error twice = catch_error([&] {
    (void)hub_place(nullptr, repo, {{"f", 1, {}, {}, {}}, {"f", 2, {}, {}, {}}}, {});
  });
  EXPECT_EQ(twice.code(), ErrorCode::network);
  EXPECT_EQ(twice.sentence(), "the listing has \"f\" twice");
  EXPECT_EQ(twice.file(), root);
}

// A header can be longer than what is read ahead of it.
TEST(HubStore, AReadAcrossTheEndOfWhatWasReadAheadIsWhole) {
  std::string all(300'000, ' ');
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>('a' + i % 23);
  const OneAnswer hub([&](int, const OneAnswer::Say& say) { say_range(all, say); });
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, {{"f", all.size(), {}, {}, {}}}, {});
  const auto file = (model / "f").open();
  for (const auto& [offset, size] : {std::pair<std::size_t, std::size_t>{0, 300'000},
                                     {100'000, 100'000},
                                     {131'072, 10},
                                     {131'071, 2},
                                     {131'062, 10}}) {
    std::vector<std::byte> bytes(size);
    file->read_at(offset, bytes);
    EXPECT_EQ(as_text(bytes), std::string_view(all).substr(offset, size)) << offset;
  }
}

TEST(HubStore, AReadBeyondTheEndIsRefused) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) {
    say(json_answer("x", fmt::format("X-Repo-Commit: {}\r\n", kCommitOfBusyHub)));
  });
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, {{"f", 1, {}, {}, {}}}, {});
  const auto file = (model / "f").open();
  std::array<std::byte, 2> bytes{};
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{2}}) {
    const Error error = catch_error([&] { file->read_at(offset, bytes); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.sentence(), "the file ends before this range");
  }
  EXPECT_NO_THROW(file->read_at(0, std::span(bytes).first(1)));
  EXPECT_NO_THROW(file->read_at(1, {}));
}

std::string blob_id_of(std::string_view text) {
  const std::string head = "blob " + std::to_string(text.size());
  return to_hex(Sha1().update(head).update(std::string_view("\0", 1)).update(text).finish());
}

// A run goes on with or without a cache, so the identity is the listing's.
TEST(HubStore, AFileIsItsDigestInTheListing) {
  const TempDir dir;
  write_text(dir / "sub/large", "x");
  write_text(dir / "plain", "x");
  write_text(dir / "unknown", "x");
  const std::string sha = sha256_hex("x");
  const std::string oid = blob_id_of("x");
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::vector<TreeFile> files{
      {"plain", 1, oid, {}, {}}, {"sub/large", 1, oid, sha, {}}, {"unknown", 1, {}, {}, {}}};
  const StorePath far = hub_place(nullptr, repo, files, {});
  const StorePath cached = hub_place(nullptr, repo, files, dir.path());
  for (const StorePath& model : {far, cached}) {
    EXPECT_EQ((model / "plain").find()->identity, (FileIdentity{1, "git:" + oid}));
    EXPECT_EQ((model / "sub/large").find()->identity, (FileIdentity{1, "sha256:" + sha}));
    EXPECT_EQ((model / "sub").find()->kind, FileKind::directory);
    EXPECT_TRUE((model / "sub/large").is_file());
    EXPECT_FALSE((model / "su").find());
    EXPECT_EQ(model.list(), (std::vector<std::string>{"plain", "sub", "unknown"}));
  }
  EXPECT_EQ((cached / "sub/large").open()->identity(), (FileIdentity{1, "sha256:" + sha}));
  const auto data = (cached / "plain").open_data(IoMode::buffered, nullptr);
  EXPECT_EQ(data->identity(), (FileIdentity{1, "git:" + oid}));
  EXPECT_EQ(data->choice()->mode, IoMode::buffered);
  EXPECT_FALSE(data->is_far());
  const FileIdentity local = StorePath(dir / "unknown").find()->identity;
  EXPECT_EQ((cached / "unknown").find()->identity, local) << "the listing has no digest";
  EXPECT_EQ((cached / "unknown").open()->identity(), local);
}

TEST(HubStore, KnowsWhereItsFilesAre) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("x", say); });
  const TempDir dir;
  write_text(dir / "here", "x");
  const HubRepo repo{"o/m", kCommitOfBusyHub};
  const std::vector<TreeFile> files{{"here", 1, {}, {}, {}}, {"there", 1, {}, {}, {}}};
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), repo, files, dir.path());
  const std::string root = "hf://o/m@" + kCommitOfBusyHub;
  EXPECT_EQ(model.text(), root);
  EXPECT_EQ((model / "there").text(), root + "/there");
  EXPECT_EQ(model.revision(), kCommitOfBusyHub);
  EXPECT_EQ((model / "here").local_path(), dir / "here");
  EXPECT_FALSE((model / "there").local_path());
  EXPECT_FALSE((model / "none").local_path());
  EXPECT_FALSE((model / "here").is_far());
  EXPECT_TRUE((model / "there").is_far());
  EXPECT_FALSE((model / "none").is_far());
  EXPECT_EQ(model.network_use()->requests, 0U);
  const auto file = (model / "there").open();
  EXPECT_TRUE(file->is_far());
  EXPECT_EQ(read_whole(*file, 1), "x");
  EXPECT_EQ(model.network_use()->requests, 2U);
  EXPECT_EQ(model.network_use()->data_requests, 1U);
  EXPECT_EQ(model.network_use()->bytes, 1U);
  const StorePath offline = hub_place(nullptr, repo, files, dir.path());
  EXPECT_FALSE(offline.network_use());
  EXPECT_FALSE((offline / "there").is_far());
  const Error error =
      catch_error([&] { (void)(offline / "there").open_data(IoMode::automatic, {}); });
  EXPECT_EQ(error.hint_text(), "run hfshard fetch first, or unset HF_HUB_OFFLINE");
}

TEST(HubStore, OtherBytesThanTheListingHasAreCorrupt) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("x", say); });
  const auto read = [&](const std::string& oid, const std::string& sha) {
    const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                      {"o/m", kCommitOfBusyHub}, {{"f", 1, oid, sha, {}}}, {});
    return (model / "f").read();
  };
  const auto refusal = [&](const std::string& oid, const std::string& sha) {
    const Error error = catch_error([&] { read(oid, sha); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), fmt::format("hf://o/m@{}/f", kCommitOfBusyHub));
    EXPECT_EQ(error.hint_text(), "a proxy or a mirror may have changed the bytes; try again");
    return error.sentence();
  };
  const std::string oid = blob_id_of("x");
  const std::string sha = sha256_hex("x");
  EXPECT_EQ(read(oid, ""), "x");
  EXPECT_EQ(read(std::string(40, 'd'), sha), "x") << "a pointer's id is not the file's";
  EXPECT_EQ(refusal(std::string(40, 'd'), ""),
            fmt::format("the git object id of the received bytes is {}, and the Hub lists {}", oid,
                        std::string(40, 'd')));
  EXPECT_EQ(refusal(oid, std::string(64, 'd')),
            fmt::format("the sha256 of the received bytes is {}, and the Hub lists {}", sha,
                        std::string(64, 'd')));
}

TEST(HubStore, ReadsOnlyWhatAnEarlierRunDidNotKeep) {
  const TempDir dir;
  const auto arrivals = [&] {
    return std::make_shared<Arrivals>(dir.path(), "arrived", 1 << 20, std::chrono::milliseconds(0));
  };
  arrivals()->keep(3, 2, as_bytes("cd"));
  std::vector<std::string> ranges;
  const OneAnswer hub([&](int, const OneAnswer::Say& say) {
    const std::size_t at = say.request().find("bytes=");
    ranges.push_back(say.request().substr(at + 6, say.request().find("\r\n", at) - at - 6));
    say_range("abcdef", say);
  });
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, {{"f", 6, {}, {}, {}}}, {});
  std::array<std::byte, 6> bytes{};
  const auto file = (model / "f").open_data(IoMode::automatic, nullptr);
  file->keep_in(arrivals(), 3);
  file->start_read(2, std::span(bytes).first(2))->wait();
  EXPECT_EQ(as_text(std::span(bytes).first(2)), "cd");
  EXPECT_TRUE(ranges.empty());
  file->read_at(0, bytes);
  EXPECT_EQ(as_text(bytes), "abcdef");
  EXPECT_EQ(std::set<std::string>(ranges.begin(), ranges.end()),
            (std::set<std::string>{"0-0", "0-1", "4-5"}));
  EXPECT_EQ(ranges.size(), 3U);
  ranges.clear();
  const auto other = (model / "f").open_data(IoMode::automatic, nullptr);
  other->keep_in(arrivals(), 4);
  other->read_at(2, std::span(bytes).first(2));
  EXPECT_EQ(ranges, std::vector<std::string>{"2-3"}) << "another file of the run";
}

// Shards are opened in order, so the headers of the next ones are on their way.
TEST(HubStore, OpeningAShardReadsTheHeadersOfTheNextOnes) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("x", say); });
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), {"o/m", kCommitOfBusyHub},
                {{"a.safetensors", 1, {}, {}, {}},
                 {"b.safetensors", 1, {}, {}, {}},
                 {"c.safetensors", 1, {}, {}, {}},
                 {"d.json", 1, {}, {}, {}}},
                {});
  EXPECT_EQ((model / "b.safetensors").read(), "x");
  for (int i = 0; i < 60'000 && model.network_use()->data_requests < 2; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(model.network_use()->data_requests, 2U);
  EXPECT_EQ((model / "c.safetensors").read(), "x");
  EXPECT_EQ(model.network_use()->data_requests, 2U);
}

TEST(HubStore, HasTheDirectoriesOfItsFiles) {
  const StorePath model = hub_place(nullptr, {"o/m", kCommitOfBusyHub},
                                    {{"a/b/c", 1, {}, {}, {}}, {"a/d", 1, {}, {}, {}}}, {});
  using Listed = std::vector<std::string>;
  EXPECT_EQ(model.list(), Listed{"a"});
  EXPECT_EQ((model / "a").list(), (Listed{"b", "d"}));
  EXPECT_EQ((model / "a/b").list(), Listed{"c"});
  EXPECT_TRUE((model / "a/b").is_directory());
  EXPECT_TRUE((model / "a/b/c").is_file());
  const StorePath empty = hub_place(nullptr, {"o/m", kCommitOfBusyHub}, {}, {});
  EXPECT_TRUE(empty.is_directory());
  EXPECT_EQ(empty.list(), Listed());
}

// Another process can fill the cache meanwhile, or empty it.
TEST(HubStore, AFileStaysWhereItWasFoundFirst) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("x", say); });
  const TempDir dir;
  write_text(dir / "cached", "c");
  const StorePath model =
      hub_place(std::make_shared<HubClient>(patient_options(hub)), {"o/m", kCommitOfBusyHub},
                {{"cached", 1, {}, {}, {}}, {"far", 1, {}, {}, {}}}, dir.path());
  EXPECT_TRUE((model / "far").is_far());
  EXPECT_FALSE((model / "cached").is_far());
  write_text(dir / "far", "c");
  std::filesystem::remove(dir / "cached");
  EXPECT_EQ((model / "far").read(), "x");
  EXPECT_EQ((model / "cached").local_path(), dir / "cached");
  EXPECT_EQ(catch_error([&] { (model / "cached").read(); }).code(), ErrorCode::not_found);
}

// The place of each file is requested once, and in the order of the reads.
TEST(HubStore, AtMostSixteenHeadersAreReadAhead) {
  const OneAnswer hub([](int, const OneAnswer::Say& say) { say_range("x", say); });
  std::vector<TreeFile> files{{"z.json", 1, {}, {}, {}}};
  for (int i = 10; i < 30; ++i) files.push_back({fmt::format("{}.safetensors", i), 1, {}, {}, {}});
  const StorePath model = hub_place(std::make_shared<HubClient>(patient_options(hub)),
                                    {"o/m", kCommitOfBusyHub}, files, {});
  EXPECT_EQ((model / "10.safetensors").read(), "x");
  EXPECT_EQ((model / "z.json").read(), "x");
  EXPECT_EQ(model.network_use()->requests - model.network_use()->data_requests, 18U);
}

}  // namespace
}  // namespace hfshard
