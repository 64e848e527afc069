#include "service/place.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "bytes/local/files.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/hub_model.h"

#include "hfshard/hub.h"

namespace hfshard {
namespace {

// The cache has no listing, but it names its blobs by their digests. So the identity doesn't depend
// on the time of the download.
TEST(FindPlace, ACachedFileIsIdentifiedByTheNameOfItsBlob) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string snapshot = join_path(folder, "snapshots/" + std::string(40, 'c'));
  const std::string git(40, 'a');
  const std::string sha(64, 'b');
  std::filesystem::create_directories(snapshot);
  for (const auto& [file, blob] : {std::pair("config.json", git), {"model.safetensors", sha}}) {
    write_text(join_path(folder, "blobs/" + blob), "{}");
    std::filesystem::create_symlink("../../blobs/" + blob, join_path(snapshot, file));
  }
  const StorePath place = find_place(snapshot);
  EXPECT_EQ((place / "config.json").find()->identity.version, "git:" + git);
  EXPECT_EQ((place / "model.safetensors").find()->identity.version, "sha256:" + sha);
}

// Neither snapshot has all files, so the error doesn't send the reader to the other one.
TEST(FindPlace, AnotherSnapshotWithABrokenLinkIsNotCalledWhole) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string torn(40, 'a');
  const std::string other(40, 'b');
  write_text(join_path(folder, "blobs/there"), "{}");
  const auto add = [&](const std::string& commit, const char* file, const char* blob) {
    const std::string snapshot = join_path(folder, "snapshots/" + commit);
    std::filesystem::create_directories(snapshot);
    const std::string link = join_path(snapshot, file);
    std::filesystem::remove(link);
    std::filesystem::create_symlink(std::string("../../blobs/") + blob, link);
  };
  const auto names_other = [&] {
    const Error error = catch_error([&] { find_place(join_path(folder, "snapshots/" + torn)); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    return error.hint_text().find(other) != std::string::npos;
  };
  add(torn, "model.safetensors", "gone");
  add(other, "model.safetensors", "there");
  add(other, "config.json", "gone");
  EXPECT_FALSE(names_other());
  add(other, "config.json", "there");
  EXPECT_TRUE(names_other());
}

Error place_failure(const SourceName& source) {
  return catch_error([&] { find_place(source); });
}

TEST(FindPlace, ARevisionIsOfAModelAndNamedOnce) {
  const TempDir dir;
  SourceName source(dir.path());
  source.revision = "main";
  const Error path = place_failure(source);
  EXPECT_EQ(path.code(), ErrorCode::usage);
  EXPECT_EQ(path.sentence(), "--revision requires a Hub model, and this is a path");
  EXPECT_EQ(path.hint_text(), "for the Hub model of this name, pass hf://" + dir.path());
  source.text = dir / "nothing";
  const Error nothing = place_failure(source);
  EXPECT_EQ(nothing.code(), ErrorCode::usage);
  EXPECT_EQ(nothing.sentence(), "--revision requires a Hub model (ORG/NAME)");
  source.text = "hf://org/name@old";
  const Error two = place_failure(source);
  EXPECT_EQ(two.code(), ErrorCode::usage);
  EXPECT_EQ(two.sentence(), "--revision \"main\" and \"old\" name two revisions");
}

TEST(FindPlace, WithoutTheHubAModelIsInTheCacheOrNowhere) {
  const TempDir dir;
  SourceName source("hf://org/name");
  source.hub.offline = true;
  const Error none = place_failure(source);
  EXPECT_EQ(none.code(), ErrorCode::not_found);
  EXPECT_EQ(none.sentence(), "hfshard found no cache to read it from");
  source.hub.cache_directory = dir.path();
  source.revision = "v2";
  const Error other = place_failure(source);
  EXPECT_EQ(other.code(), ErrorCode::not_found);
  EXPECT_EQ(other.sentence(), "org/name at \"v2\" isn't in the cache");
  source.revision.clear();
  source.text = "hf://org/name@v3";
  EXPECT_EQ(place_failure(source).sentence(), "org/name at \"v3\" isn't in the cache");
}

TEST(FindPlace, ARevisionOfACacheDirectoryIsOneOfItsSnapshots) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string commit(40, 'c');
  const std::string snapshot = join_path(folder, "snapshots/" + commit);
  write_text(join_path(snapshot, "config.json"), "{}");
  write_text(join_path(folder, "refs/main"), commit);
  SourceName source(folder);
  EXPECT_TRUE((find_place(source) / "config.json").find());
  std::filesystem::remove_all(folder + "/refs");
  EXPECT_TRUE((find_place(source) / "config.json").find()) << "it has no other";
  source.revision = "v2";
  EXPECT_EQ(place_failure(source).sentence(), "revision \"v2\" isn't in the cache");
  source.revision.clear();
  const std::string second = join_path(folder, "snapshots/" + std::string(40, 'd'));
  write_text(join_path(second, "config.json"), "{}");
  EXPECT_EQ(place_failure(source).code(), ErrorCode::not_found) << "either of two";
  write_text(join_path(folder, "refs/main"), commit);
  source.revision = "main";
  EXPECT_TRUE((find_place(source) / "config.json").find());
  source.revision = "v2";
  const Error missing = place_failure(source);
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_EQ(missing.sentence(), "revision \"v2\" isn't in the cache");
  EXPECT_EQ(missing.hint_text(), "pass another revision, or the model (ORG/NAME)");
  source.text = snapshot;
  const Error unlike = place_failure(source);
  EXPECT_EQ(unlike.code(), ErrorCode::usage);
  EXPECT_EQ(unlike.sentence(), "--revision \"v2\" isn't the revision of this snapshot");
  source.revision = "main";
  EXPECT_TRUE((find_place(source) / "config.json").find());
}

TEST(FindPlace, ASnapshotWithoutWeightsIsNotCalledWhole) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  const std::string torn = join_path(folder, "snapshots/" + std::string(40, 'a'));
  const std::string other = join_path(folder, "snapshots/" + std::string(40, 'b'));
  std::filesystem::create_directories(torn);
  std::filesystem::create_symlink("../../blobs/gone", join_path(torn, "model.safetensors"));
  write_text(join_path(other, "config.json"), "{}");
  EXPECT_EQ(catch_error([&] { find_place(torn); }).hint_text(),
            "hfshard fetch org/name --revision " + std::string(40, 'a') + " downloads it");
  write_text(join_path(other, "pytorch_model.bin"), "");
  EXPECT_EQ(catch_error([&] { find_place(torn); }).hint_text(),
            "hfshard fetch org/name --revision " + std::string(40, 'a') +
                " downloads it; or pass hf://org/name@" + std::string(40, 'b') +
                ", which is whole");
}

TEST(FindPlace, ARevisionWithoutASnapshotIsNotInTheCache) {
  const TempDir dir;
  const std::string folder = dir / "models--org--name";
  write_text(join_path(folder, "refs/main"), std::string(40, 'c'));
  write_text(join_path(folder, "snapshots/" + std::string(40, 'd') + "/config.json"), "{}");
  const Error named = place_failure(folder);
  EXPECT_EQ(named.code(), ErrorCode::not_found);
  EXPECT_EQ(named.sentence(), "revision \"main\" isn't in the cache");
  SourceName source("hf://org/name");
  source.hub.offline = true;
  source.hub.cache_directory = dir.path();
  const Error offline = place_failure(source);
  EXPECT_EQ(offline.code(), ErrorCode::not_found);
  EXPECT_EQ(offline.sentence(), "org/name at \"main\" isn't in the cache");
}

TEST(FindPlace, TheSameRevisionCanBeNamedTwice) {
  const TempDir dir;
  SourceName source("hf://org/name@v2");
  source.revision = "v2";
  source.hub.offline = true;
  source.hub.cache_directory = dir.path();
  EXPECT_EQ(place_failure(source).sentence(), "org/name at \"v2\" isn't in the cache");
}

TEST(FindPlace, AModelIsReadFromTheHubWithoutACacheAndKeptOnlyInOne) {
  const TempDir dir;
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"config.json", 2}});
  });
  SourceName source("hf://org/name");
  source.hub = patient_options(hub);
  std::vector<std::string> notes;
  source.hub.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_TRUE((find_place(source) / "config.json").find());
  EXPECT_EQ(notes, std::vector<std::string>{"reading commit " + kCommit + " of org/name from " +
                                            hub.endpoint()});
  source.keep_files = true;
  const Error error = place_failure(source);
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--keep-files needs a cache directory");
  notes.clear();
  source.hub.cache_directory = dir.path();
  source.text = "hf://org/name/nothing";
  EXPECT_EQ(find_place(source).revision(), kCommit);
  EXPECT_EQ(notes,
            std::vector<std::string>{"reading commit " + kCommit + " of org/name from the cache"});
}

TEST(FindPlace, AKeptModelLacksWeightsInOtherFormatsAndFilesOutsideItsPath) {
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say_files(say, {{"config.json", 0},
                    {"model.safetensors", 0},
                    {"pytorch_model.bin", 3072},
                    {"sub/config.json", 0},
                    {"sub/pytorch_model.bin", 0},
                    {"subway/config.json", 0}});
  });
  using Names = std::vector<std::string>;
  const auto kept = [&](const std::string& text, Names& notes) {
    const TempDir dir;
    SourceName source(text);
    source.hub = patient_options(hub);
    source.hub.cache_directory = dir.path();
    source.hub.note = [&](const std::string& note) {
      if (!note.starts_with("fetched ")) notes.push_back(note);
    };
    source.keep_files = true;
    find_place(source);
    const std::string snapshot = dir / ("models--org--name/snapshots/" + kCommit);
    for (std::string& note : notes) {
      if (note.ends_with(snapshot)) note.resize(note.size() - snapshot.size());
    }
    return list_directory(snapshot);
  };
  const std::string reading = "reading commit " + kCommit + " of org/name from the cache";
  Names notes;
  EXPECT_EQ(kept("hf://org/name", notes),
            (Names{"config.json", "model.safetensors", "sub", "subway"}));
  EXPECT_EQ(notes, (Names{"3 KiB of weights in other formats stay on the Hub; run hfshard fetch to "
                          "download them",
                          "keeping 5 files in ", reading}));
  notes.clear();
  EXPECT_EQ(kept("hf://org/name/sub", notes), Names{"sub"});
  EXPECT_EQ(notes, (Names{"keeping 2 files in ", reading})) << "without safetensors files";
}

TEST(FindPlace, WithoutASnapshotTheErrorSaysThatTheHubIsAway) {
  const TempDir dir;
  const DeafPort port(false);
  SourceName source("hf://org/name");
  source.hub.endpoint = "http://" + port.host();
  source.hub.retry_ms = 1;
  source.hub.cache_directory = dir.path();
  const std::string folder = dir / "models--org--name";
  write_text(join_path(folder, "refs/main"), kCommit);
  EXPECT_EQ(place_failure(source).code(), ErrorCode::network);
  write_text(join_path(folder, "snapshots/" + kCommit + "/config.json"), "{}");
  EXPECT_TRUE((find_place(source) / "config.json").find());
}

// Writes a cache with one commit of the model, and returns a source that can be read from it.
SourceName cached_source(const TempDir& dir, const OneAnswer& hub) {
  const std::string folder = dir / "models--org--name";
  write_text(join_path(folder, "refs/main"), kCommit);
  write_text(join_path(folder, "snapshots/" + kCommit + "/config.json"), "{}");
  SourceName out("hf://org/name");
  out.hub = patient_options(hub);
  out.hub.cache_directory = dir.path();
  return out;
}

TEST(FindPlace, ARefusalOfTheHubIsTheErrorEvenIfTheCacheHasACommit) {
  const TempDir dir;
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say(refusal("401 Unauthorized", "Invalid credentials in Authorization header"));
  });
  SourceName source = cached_source(dir, hub);
  source.hub.token = "hf_x";
  EXPECT_EQ(place_failure(source).code(), ErrorCode::access);
}

TEST(FindPlace, AHubThatStaysBusyIsReplacedByTheCacheWithANote) {
  const TempDir dir;
  const OneAnswer hub([](int /*number*/, const OneAnswer::Say& say) {
    say(refusal("503 Service Unavailable", ""));
  });
  SourceName source = cached_source(dir, hub);
  std::vector<std::string> notes;
  source.hub.note = [&](const std::string& note) { notes.push_back(note); };
  EXPECT_TRUE((find_place(source) / "config.json").find());
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes.back(), "can't reach " + hub.endpoint() +
                              " (status 503; hfshard tried 6 times): reading commit " + kCommit +
                              " of org/name from the cache");
}

TEST(FindPlace, OnlyAHubModelKeepsItsFiles) {
  const TempDir dir;
  SourceName source(dir.path());
  source.keep_files = true;
  const Error error = place_failure(source);
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--keep-files requires a Hub model (ORG/NAME)");
  EXPECT_EQ(error.file(), dir.path());
  EXPECT_EQ(error.hint_text(), "pass a Hub model as ORG/NAME");
}

TEST(HubNameOf, ANameHasOneRevision) {
  SourceName source("hf://org/name");
  EXPECT_EQ(hub_name_of(source).repo, "org/name");
  EXPECT_EQ(hub_name_of(source).revision, "");
  source.revision = "v2";
  EXPECT_EQ(hub_name_of(source).revision, "v2");
  source.text = "org/name@v2";
  EXPECT_EQ(hub_name_of(source).revision, "v2");
  source.text = "org/name@v1";
  const Error two = catch_error([&] { hub_name_of(source); });
  EXPECT_EQ(two.sentence(), "--revision \"v2\" and \"v1\" name two revisions");
  EXPECT_EQ(two.file(), "org/name@v1");
  source.text = "/a/directory";
  const Error none = catch_error([&] { hub_name_of(source); });
  EXPECT_EQ(none.code(), ErrorCode::usage);
  EXPECT_EQ(none.sentence(), "\"/a/directory\" isn't the name of a Hub model");
  EXPECT_EQ(none.hint_text(), "pass a Hub model as ORG/NAME");
}

// Names of models can be relative paths.
class PlaceInDirectory : public testing::Test {
 protected:
  PlaceInDirectory() { std::filesystem::current_path(dir_.path()); }
  PlaceInDirectory(const PlaceInDirectory&) = delete;
  PlaceInDirectory& operator=(const PlaceInDirectory&) = delete;
  ~PlaceInDirectory() override { std::filesystem::current_path(before_); }
  SourceName source(const std::string& text) {
    SourceName out(text);
    out.hub.offline = true;
    out.hub.note = [this](const std::string& note) { notes_.push_back(note); };
    return out;
  }

  TempDir dir_;
  std::filesystem::path before_ = std::filesystem::current_path();
  std::vector<std::string> notes_;
};

TEST_F(PlaceInDirectory, AModelsDirectoryWithTheNameOfAHubModelIsNoted) {
  std::filesystem::create_directories(dir_ / "org/name");
  EXPECT_EQ(find_place(source("org/name")).text(), "org/name");
  EXPECT_EQ(notes_, std::vector<std::string>()) << "not a model";
  write_text(dir_ / "org/name/config.json", "{}");
  write_text(dir_ / "alone/config.json", "{}");
  EXPECT_EQ(find_place(source("org/name")).text(), "org/name");
  EXPECT_EQ(notes_, std::vector<std::string>{"reading the directory org/name; for the Hub model of "
                                             "this name, pass hf://org/name"});
  notes_.clear();
  for (const std::string& other : {dir_ / "org/name", std::string("./org/name"),
                                   std::string("alone"), std::string("org/name/")})
    EXPECT_EQ(find_place(source(other)).text(), other);
  EXPECT_EQ(notes_, std::vector<std::string>());
}

TEST_F(PlaceInDirectory, ANameBelowADirectoryIsAPathAndAnyOtherIsAHubModel) {
  std::filesystem::create_directories(dir_ / "org");
  EXPECT_EQ(find_place(source("org/nam")).text(), "org/nam");
  EXPECT_EQ(find_place(source("nam")).text(), "nam");
  for (const char* hub : {"other/nam", "hf://org/nam"}) {
    EXPECT_EQ(place_failure(source(hub)).sentence(), "hfshard found no cache to read it from")
        << hub;
  }
}

}  // namespace
}  // namespace hfshard
