// Snapshots of the cache with links to missing files, and with the Hub's listing.

#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "service/place.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/hub_model.h"

namespace hfshard {
namespace {

const std::string kFirst(40, 'a');
const std::string kSecond(40, 'b');

class PlaceInCache : public testing::Test {
 protected:
  // Adds a file of four bytes to a snapshot, or a link to a missing one.
  void add(const std::string& commit, const std::string& file, bool is_there = true) const {
    const std::string path = join_path(folder_, "snapshots/" + commit + "/" + file);
    if (is_there) return write_text(path, "1234");
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::create_symlink("../../blobs/gone-" + file, path);
  }
  // Writes the Hub's listing of a commit. Each file has four bytes.
  void list(const std::string& commit, const std::vector<std::string>& files) const {
    std::vector<std::string> entries;
    for (const std::string& file : files) {
      entries.push_back(fmt::format(R"("{}": {{"size": 4, "blob_id": "{}", "lfs_sha256": "{}"}})",
                                    file, std::string(40, 'd'), std::string(64, 'e')));
    }
    write_text(join_path(folder_, "trees/" + commit + ".json"),
               R"({"format_version": 1, "files": {)" + join(entries, ", ") + "}}");
  }
  StorePath find(const std::string& commit) const {
    return find_place(join_path(folder_, "snapshots/" + commit));
  }
  Error failure(const std::string& commit) const {
    return catch_error([&] { find(commit); });
  }

  TempDir dir_;
  std::string folder_ = dir_ / "models--org--name";
};

TEST_F(PlaceInCache, OnlyALinkThatTheModelNeedsIsAnError) {
  add(kFirst, "model.safetensors");
  for (const char* other : {"pytorch_model.bin", "tf_model.h5", "consolidated.00.pth"})
    add(kFirst, other, false);
  EXPECT_TRUE((find(kFirst) / "model.safetensors").find());
  add(kSecond, "config.json");
  add(kSecond, "tf_model.h5", false);
  EXPECT_TRUE((find(kSecond) / "config.json").find());
  add(kSecond, "pytorch_model.bin", false);
  const Error torch = failure(kSecond);
  EXPECT_EQ(torch.code(), ErrorCode::not_found);
  EXPECT_EQ(torch.sentence(),
            "the file in the cache is a link to \"../../blobs/gone-pytorch_model.bin\", which "
            "doesn't exist");
  EXPECT_EQ(torch.file(), join_path(folder_, "snapshots/" + kSecond + "/pytorch_model.bin"));
  add(kSecond, "model.safetensors", false);
  add(kSecond, "a.bin", false);
  std::filesystem::remove(join_path(folder_, "snapshots/" + kSecond + "/a.bin"));
  EXPECT_TRUE(failure(kSecond).file().ends_with("/model.safetensors"))
      << "then the other weights are a second copy";
}

TEST_F(PlaceInCache, ASnapshotIsWholeIfItHasAllThatTheHubLists) {
  add(kFirst, "model.safetensors", false);
  add(kSecond, "model.safetensors");
  const std::string fetch = "hfshard fetch org/name --revision " + kFirst + " downloads it";
  const std::string whole = "; or pass hf://org/name@" + kSecond + ", which is whole";
  EXPECT_EQ(failure(kFirst).hint_text(), fetch + whole) << "without a listing";
  list(kSecond, {"config.json", "model.safetensors"});
  EXPECT_EQ(failure(kFirst).hint_text(), fetch);
  list(kSecond, {"model.safetensors", "pytorch_model.bin", "tf_model.h5"});
  EXPECT_EQ(failure(kFirst).hint_text(), fetch + whole) << "second copies can be missing";
}

TEST_F(PlaceInCache, FilesHaveTheIdentityThatTheHubLists) {
  add(kFirst, "model.safetensors");
  const auto version = [&] {
    return (find(kFirst) / "model.safetensors").find()->identity.version;
  };
  EXPECT_NE(version(), "sha256:" + std::string(64, 'e'));
  list(kFirst, {"model.safetensors"});
  EXPECT_EQ(version(), "sha256:" + std::string(64, 'e'));
  list(kFirst, {"model.safetensors", "sub/config.json"});
  const StorePath place = find(kFirst);
  EXPECT_EQ(place.revision(), kFirst);
  EXPECT_TRUE(
      find_place(join_path(folder_, "snapshots/" + kFirst) + "/model.safetensors").is_file());
}

TEST_F(PlaceInCache, ReadingItIsNoted) {
  add(kFirst, "model.safetensors");
  write_text(join_path(folder_, "refs/main"), kFirst);
  std::vector<std::string> notes;
  SourceName source(folder_);
  source.hub.note = [&](const std::string& note) { notes.push_back(note); };
  find_place(source);
  const std::vector<std::string> reading{"reading commit " + kFirst +
                                         " of org/name from the cache"};
  EXPECT_EQ(notes, reading);
  notes.clear();
  source.text = "hf://org/name/model.safetensors";
  source.hub.offline = true;
  source.hub.cache_directory = dir_.path();
  EXPECT_TRUE(find_place(source).is_file());
  EXPECT_EQ(notes, reading);
}

// The Hub is asked only for the commit of the revision.
TEST_F(PlaceInCache, AListingInTheCacheIsNotAskedForAgain) {
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"config.json", 4}});
  });
  SourceName source("hf://org/name");
  source.hub = patient_options(hub);
  source.hub.cache_directory = dir_.path();
  EXPECT_TRUE((find_place(source) / "config.json").find());
  EXPECT_EQ(hub.asked(), 2);
  list(kCommit, {"tokenizer.json"});
  EXPECT_TRUE((find_place(source) / "config.json").find());
  EXPECT_EQ(hub.asked(), 4) << "without the snapshot";
  add(kCommit, "tokenizer.json");
  const StorePath place = find_place(source);
  EXPECT_EQ(hub.asked(), 5);
  EXPECT_FALSE((place / "config.json").find());
  EXPECT_TRUE((place / "tokenizer.json").find());
}

}  // namespace
}  // namespace hfshard
