#include "bytes/hub/hub_store.h"

#include <array>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/coding.h"
#include "bytes/hub/hub_client.h"
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

}  // namespace
}  // namespace hfshard
