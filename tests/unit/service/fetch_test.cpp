#include "hfshard/fetch.h"

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/bytes/hub/one_answer.h"

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

const std::string kCommit(40, 'c');

// Answers questions about a model of empty files, which have no bytes to ask for.
void say_empty_files(const OneAnswer::Say& say, const std::vector<std::string>& paths) {
  if (say.request().find("/tree/") == std::string::npos) {
    say(json_answer(fmt::format(R"({{"id": "org/name", "sha": "{}"}})", kCommit)));
    return;
  }
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    files.push_back(fmt::format(R"({{"type": "file", "path": "{}", "size": 0, "oid": "{}"}})", path,
                                "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"));
  }
  say(json_answer("[" + join(files, ",") + "]"));
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
    say_empty_files(say, {"a.bin", "a.txt", "sub/a.bin", "sub/b.txt", "sub.txt", "subway/c.txt"});
  });
  using Names = std::vector<std::string>;
  const std::string model = "hf://org/name";
  EXPECT_EQ(fetched(hub, model, {}), (Names{"a.bin", "a.txt", "sub", "sub.txt", "subway"}));
  EXPECT_EQ(fetched(hub, model + "/sub", {}), Names{"sub"});
  EXPECT_EQ(fetched(hub, model + "/sub", {}, "sub"), (Names{"a.bin", "b.txt"}));
  EXPECT_EQ(fetched(hub, model + "/sub.txt", {}), Names{"sub.txt"});
  FetchOptions options;
  options.include = {"sub/"};
  EXPECT_EQ(fetched(hub, model, options), Names{"sub"});
  options.include = {"a.*", "subway/"};
  options.exclude = {"*.bin"};
  EXPECT_EQ(fetched(hub, model, options), (Names{"a.txt", "subway"}));
  options.exclude = {"sub/"};
  options.include.clear();
  EXPECT_EQ(fetched(hub, model, options), (Names{"a.bin", "a.txt", "sub.txt", "subway"}));
  options.include = {"*.json"};
  const Error error = catch_error([&] { fetched(hub, model, options); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "no file of org/name matches");
  EXPECT_EQ(error.hint_text(), "--include and --exclude match paths, as in *.safetensors");
}

TEST_F(FetchTest, AnInterruptionKeepsTheCompletedFilesAndSaysHowToContinue) {
  std::atomic<bool> stop = false;
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_empty_files(say, {"a.txt", "b.txt"});
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
  stop = false;
  source.hub.note = {};
  EXPECT_EQ(fetch(source, {}, quiet_).files, 2U);
}

TEST_F(FetchTest, APathOfThisMachineIsNotAModel) {
  const Error error = catch_error([&] { fetch(SourceName(dir_.path()), {}, quiet_); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "this is a local path, and fetch downloads Hub models");
  EXPECT_EQ(error.hint_text(), "for the Hub model of this name, pass hf://" + dir_.path());
}

}  // namespace
}  // namespace hfshard
