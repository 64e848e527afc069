#include "hfshard/fetch.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/hub/hf_cache.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/hub_model.h"

namespace hfshard {
namespace {

TEST(Fetch, NeedsACacheAndTheHub) {
  Reporter quiet;
  SourceName source("hf://org/name");
  source.hub.offline = true;
  const auto failure = [&] { return catch_error([&] { fetch(source, {}, quiet); }); };
  EXPECT_EQ(failure().code(), ErrorCode::usage);
  EXPECT_EQ(failure().sentence(), "fetch needs a cache directory");
  const TempDir dir;
  source.hub.cache_directory = dir.path();
  EXPECT_EQ(failure().sentence(), "HF_HUB_OFFLINE is set, so hfshard can't download");
}

class FetchTest : public testing::Test {
 protected:
  SourceName source_of(const OneAnswer& hub, const std::string& text) const {
    SourceName out(text);
    out.hub = patient_options(hub);
    out.hub.cache_directory = dir_.path();
    return out;
  }
  // Fetches into an empty cache. Returns the entries of the snapshot's directory `below`.
  std::vector<std::string> fetched(const OneAnswer& hub, const std::string& text,
                                   const FetchOptions& options, const std::string& below = "") {
    std::filesystem::remove_all(dir_ / "models--org--name");
    const FetchReport report = fetch(source_of(hub, text), options, quiet_);
    EXPECT_EQ(report.commit, kCommit);
    return list_directory(join_path(report.snapshot, below));
  }

  TempDir dir_;
  Reporter quiet_;
};

TEST_F(FetchTest, APathSelectsAFileOrADirectoryAndGlobsSelectAmongThem) {
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"a.bin", 0},
                    {"a.txt", 0},
                    {"sub/a.bin", 0},
                    {"sub/b.txt", 0},
                    {"sub.txt", 0},
                    {"subway/c.txt", 0}});
  });
  using Kept = std::vector<std::string>;
  const std::string model = "hf://org/name";
  EXPECT_EQ(fetched(hub, model, {}), (Kept{"a.bin", "a.txt", "sub", "sub.txt", "subway"}));
  EXPECT_EQ(fetched(hub, model + "/sub", {}), Kept{"sub"});
  EXPECT_EQ(fetched(hub, model + "/sub", {}, "sub"), (Kept{"a.bin", "b.txt"}));
  EXPECT_EQ(fetched(hub, model + "/sub.txt", {}), Kept{"sub.txt"});
  FetchOptions options;
  options.include = {"sub/"};
  EXPECT_EQ(fetched(hub, model, options), Kept{"sub"});
  options.include = {"a.*", "subway/"};
  options.exclude = {"*.bin"};
  EXPECT_EQ(fetched(hub, model, options), (Kept{"a.txt", "subway"}));
  options.exclude = {"sub/"};
  options.include.clear();
  EXPECT_EQ(fetched(hub, model, options), (Kept{"a.bin", "a.txt", "sub.txt", "subway"}));
  options.include = {"*.json"};
  const Error error = catch_error([&] { fetched(hub, model, options); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "no file of org/name matches");
  EXPECT_EQ(error.hint_text(), "--include and --exclude match paths, as in *.safetensors");
}

TEST_F(FetchTest, AnInterruptionKeepsTheCompletedFilesAndSaysHowToContinue) {
  std::atomic<bool> stop = false;
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"a.txt", 0}, {"b.txt", 0}});
  });
  SourceName source = source_of(hub, "hf://org/name");
  source.hub.stop = &stop;
  source.hub.note = [&](const std::string& note) { stop = note.starts_with("fetched a.txt"); };
  const Error error = catch_error([&] { fetch(source, {}, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::cancelled);
  EXPECT_EQ(error.sentence(), "interrupted; completed files were kept");
  EXPECT_EQ(error.hint_text(), "run the same command again to continue");
  EXPECT_EQ(list_directory(dir_ / ("models--org--name/snapshots/" + kCommit)),
            std::vector<std::string>{"a.txt"});
  const auto listed = CachedRepo(dir_.path(), "org/name").tree(kCommit);
  ASSERT_TRUE(listed) << "the other file is known to be missing";
  EXPECT_EQ(listed->size(), 2U);
  stop = false;
  source.hub.note = {};
  EXPECT_EQ(fetch(source, {}, quiet_).files, 2U);
  EXPECT_EQ(hub.asked(), 3) << "only for the name of the commit";
}

TEST_F(FetchTest, ASecondFetchOfACommitAsksOnlyForItsName) {
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"a.txt", 0}, {"b.txt", 0}});
  });
  const SourceName source = source_of(hub, "hf://org/name");
  FetchReport report = fetch(source, {}, quiet_);
  EXPECT_EQ(hub.asked(), 2);
  report = fetch(source, {}, quiet_);
  EXPECT_EQ(hub.asked(), 3);
  EXPECT_EQ(report.files, 2U);
  EXPECT_EQ(report.fetched_files, 0U);
}

TEST_F(FetchTest, APathOfThisMachineIsNotAModel) {
  const Error error = catch_error([&] { fetch(SourceName(dir_.path()), {}, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "this is a local path, and fetch downloads Hub models");
  EXPECT_EQ(error.file(), dir_.path());
  EXPECT_EQ(error.hint_text(), "for the Hub model of this name, pass hf://" + dir_.path());
}

}  // namespace
}  // namespace hfshard
