#include "run/commit/in_place.h"

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Renames of an index that are allowed before the system refuses the rest.
std::atomic<int> g_moves_left{0};
int stop_moving(const char* call, const char* path) {
  const std::string_view name(path);
  if (std::string_view(call) != "rename" || name.ends_with(".tmp")) return 0;
  return --g_moves_left < 0 ? EIO : 0;
}

class InPlaceTest : public testing::Test {
 protected:
  static PlanOptions options(bool checksum) {
    PlanOptions out;
    out.link = out.in_place = true;
    out.encoding.checksum = checksum;
    return out;
  }
  static RunOptions overwriting(const std::string& out) {
    RunOptions options = to_output(out);
    options.overwrite = true;
    return options;
  }
  static RunOptions resuming(const std::string& out) {
    RunOptions options = to_output(out);
    options.resume = true;
    return options;
  }
  // Stops after `moves` files have moved. Returns false if it ran to the end.
  bool interrupted(const Plan& plan, const RunOptions& run, int moves) const {
    g_moves_left = moves;
    sys::set_fault_hook(&stop_moving);
    bool stopped = false;
    try {
      convert(plan, run);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io) << error.format();
      stopped = true;
    }
    sys::set_fault_hook(nullptr);
    return stopped;
  }

  TempDir dir_;
  std::string source_ = copy_fixture("llama3.1", dir_ / "source");
  Plan old_plan_ = small_plan(source_, options(false));  // small: many data files
  Plan plan_ = small_plan(source_, options(true), {});
};

TEST_F(InPlaceTest, TheOldIndexIsWholeAgainWhereverTheNewOneStopped) {
  const auto bare = tree_of(source_);
  for (const bool over : {false, true}) {
    if (over) convert(old_plan_, to_output(source_));
    const auto before = tree_of(source_);
    int moves = 0;
    for (; interrupted(plan_, overwriting(source_), moves); ++moves) {
      SCOPED_TRACE(moves);
      EXPECT_TRUE(clean_staging(out_paths(source_)));
      EXPECT_EQ(differing(before, tree_of(source_)), "");
    }
    EXPECT_GT(moves, 6);
    EXPECT_EQ(published_plan_id(format_of("orbax"), source_), plan_.id());
    for (const auto& [name, unused] : tree_of(source_)) {
      if (!bare.contains(name)) remove_tree(join_path(source_, name));
    }
  }
}

TEST_F(InPlaceTest, DataFilesOfTheOldIndexGoWithIt) {
  convert(old_plan_, to_output(source_));
  EXPECT_TRUE(exists(join_path(source_, "d/00001")));
  write_text(join_path(source_, "d/notes.txt"), "mine");
  convert(plan_, overwriting(source_));
  EXPECT_EQ(list_directory(join_path(source_, "d")),
            (std::vector<std::string>{"00000", "btree", "notes.txt"}));
}

// Files of another program's index are replaced if hfshard's have the same names. Others stay.
TEST_F(InPlaceTest, DataFilesOfAnIndexThatIsNotOursStay) {
  convert(old_plan_, to_output(source_));
  ASSERT_TRUE(exists(join_path(source_, "d/00001")));
  write_text(join_path(source_, "_CHECKPOINT_METADATA"), "{}");
  const std::string theirs = read_file(join_path(source_, "d/00001"));
  convert(plan_, overwriting(source_));
  EXPECT_EQ(read_file(join_path(source_, "d/00001")), theirs);
}

// The metadata of one index and the manifest of another aren't a checkpoint.
TEST_F(InPlaceTest, TheMetadataAloneIsNotBelieved) {
  convert(plan_, to_output(source_));
  const std::string path = join_path(source_, "_CHECKPOINT_METADATA");
  const std::string ours = read_file(path);
  EXPECT_TRUE(convert(plan_, resuming(source_)).already_done);
  convert(old_plan_, overwriting(source_));
  write_text(path, ours);
  EXPECT_EQ(published_plan_id(format_of("orbax"), source_), "");
  const Error error = catch_error([&] { convert(plan_, resuming(source_)); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  write_text(join_path(source_, "manifest.ocdbt"), "damaged");
  EXPECT_EQ(catch_error([&] { convert(plan_, resuming(source_)); }).code(), ErrorCode::conflict);
  remove_tree(join_path(source_, "manifest.ocdbt"));
  EXPECT_EQ(catch_error([&] { convert(plan_, resuming(source_)); }).code(), ErrorCode::conflict);
}

TEST_F(InPlaceTest, OnlyAnIndexIsReplaced) {
  for (const char* name : {"hfshard.json", "_METADATA", "d/00000"}) {
    SCOPED_TRACE(name);
    write_text(join_path(source_, name), "mine");
    const auto before = tree_of(source_);
    for (const RunOptions& run : {to_output(source_), overwriting(source_)}) {
      const Error error = catch_error([&] { convert(plan_, run); });
      EXPECT_EQ(error.code(), ErrorCode::conflict);
      EXPECT_EQ(error.sentence(),
                "the directory has no index, but a file with the name of one of its files");
      EXPECT_EQ(error.file(), join_path(source_, name));
      EXPECT_EQ(error.hint_text(), "move it away; hfshard deletes only what it wrote");
      EXPECT_EQ(differing(before, tree_of(source_)), "");
    }
    remove_tree(join_path(source_, name));
  }
}

TEST(PlaceIndex, DirectoriesBelowEachOtherGoWithAnIndexThatIsTakenBack) {
  const TempDir dir;
  const OutPaths paths = out_paths(dir / "out");
  make_directories(paths.out);
  for (const char* file : {"a/b/data", "commit"}) write_text(join_path(paths.step, file), "new");
  g_moves_left = 1;
  sys::set_fault_hook(&stop_moving);
  EXPECT_THROW(place_index(paths, {{"a/b/data", "commit"}, {}}), Error);
  sys::set_fault_hook(nullptr);
  EXPECT_TRUE(exists(join_path(paths.out, "a/b/data")));
  const std::string note = join_path(paths.staging, "publishing.json");
  EXPECT_EQ(take_back_index(paths, parse_json(read_file(note), note)), StagingUse::go_on);
  EXPECT_EQ(list_directory(paths.out), std::vector<std::string>());
}

// Readers find a checkpoint by its commit file.
TEST(PlaceIndex, WhileFilesMoveTheDirectoryHasNoCommitFile) {
  const TempDir dir;
  const OutPaths paths = out_paths(dir / "out");
  for (const char* file : {"a", "b", "commit", "stale"})
    write_text(join_path(paths.out, file), "before");
  for (const char* file : {"a", "b", "commit"}) write_text(join_path(paths.step, file), "new");
  const IndexFiles index{{"a", "b", "commit"}, {"stale"}};
  const auto before = tree_of(paths.out);
  const std::string note = join_path(paths.staging, "publishing.json");
  constexpr int kMoves = 7;  // two for each new file, and one for the stale one
  for (int moves = 0; moves < kMoves; ++moves) {
    SCOPED_TRACE(moves);
    g_moves_left = moves;
    sys::set_fault_hook(&stop_moving);
    EXPECT_THROW(place_index(paths, index), Error);
    sys::set_fault_hook(nullptr);
    EXPECT_EQ(exists(join_path(paths.out, "commit")), moves == 0);
    EXPECT_EQ(take_back_index(paths, parse_json(read_file(note), note)), StagingUse::go_on);
    EXPECT_EQ(tree_of(paths.out), before);
    EXPECT_FALSE(exists(note));
  }
  place_index(paths, index);
  EXPECT_EQ(tree_of(paths.out),
            (std::map<std::string, std::string>{{"a", "new"}, {"b", "new"}, {"commit", "new"}}));
}

// A run can end after it has moved files to `old/`, but before its note is durable.
TEST(PlaceIndex, FilesThatAnEarlierRunLeftInStagingAreNotPutBack) {
  const TempDir dir;
  const OutPaths paths = out_paths(dir / "out");
  make_directories(paths.out);
  for (const char* file : {"data", "gone", "commit", "else"})
    write_text(join_path(paths.staging, join_path("old", file)), "left");
  for (const char* file : {"data", "commit"}) write_text(join_path(paths.step, file), "new");
  g_moves_left = 1;
  sys::set_fault_hook(&stop_moving);
  EXPECT_THROW(place_index(paths, {{"data", "commit"}, {"gone"}}), Error);
  sys::set_fault_hook(nullptr);
  const std::string note = join_path(paths.staging, "publishing.json");
  EXPECT_EQ(take_back_index(paths, parse_json(read_file(note), note)), StagingUse::go_on);
  EXPECT_EQ(list_directory(paths.out), std::vector<std::string>());
  EXPECT_EQ(list_directory(join_path(paths.staging, "old")), std::vector<std::string>());
  EXPECT_EQ(tree_of(paths.step),
            (std::map<std::string, std::string>{{"commit", "new"}, {"data", "new"}}));
}

TEST(PlaceIndex, FilesAreNotMovedThroughALink) {
  const TempDir dir;
  const OutPaths paths = out_paths(dir / "out");
  write_text(dir / "home/data", "mine");
  make_directories(paths.out);
  std::filesystem::create_symlink(dir / "home", join_path(paths.out, "d"));
  for (const char* file : {"d/data", "commit"}) write_text(join_path(paths.step, file), "new");
  const Error error = catch_error([&] { place_index(paths, {{"d/data", "commit"}, {}}); });
  EXPECT_EQ(error.code(), ErrorCode::conflict);
  EXPECT_EQ(error.sentence(), "a directory of the index is a link");
  EXPECT_EQ(error.file(), join_path(paths.out, "d"));
  EXPECT_EQ(read_file(dir / "home/data"), "mine");
}

TEST(PlaceIndex, NewFilesTakeThePlacesAndStaleOnesGo) {
  const TempDir dir;
  const OutPaths paths = out_paths(dir / "out");
  for (const char* file : {"a/data", "commit", "old/one", "mine"})
    write_text(join_path(paths.out, file), "before");
  for (const char* file : {"a/data", "b/c", "commit"})
    write_text(join_path(paths.step, file), "new");
  place_index(paths, {{"a/data", "b/c", "commit"}, {"old/one"}});
  EXPECT_EQ(tree_of(paths.out), (std::map<std::string, std::string>{{"a/", ""},
                                                                    {"a/data", "new"},
                                                                    {"b/", ""},
                                                                    {"b/c", "new"},
                                                                    {"commit", "new"},
                                                                    {"mine", "before"},
                                                                    {"old/", ""}}));
  const std::string note = join_path(paths.staging, "publishing.json");
  const Json mark = parse_json(read_file(note), note);
  EXPECT_TRUE(is_index_mark(mark));
  EXPECT_EQ(dump_json(mark.at("made")), R"(["b"])");
  EXPECT_EQ(dump_json(mark.at("stale")), R"(["old/one"])");
  EXPECT_EQ(index_use(paths, mark), StagingUse::published);
  EXPECT_EQ(take_back_index(paths, mark), StagingUse::published);
  EXPECT_EQ(read_file(join_path(paths.out, "commit")), "new") << "what is published stays";
}

// A directory from elsewhere can have any note.
class ForgedNote : public InPlaceTest {
 protected:
  // Interrupts a run while its files move, and returns its note.
  Json begun() {
    EXPECT_TRUE(interrupted(plan_, overwriting(source_), 3));
    return parse_json(read_file(note_), note_);
  }
  void expect_refused(const Json& note) {
    write_text(note_, dump_json(note));
    const auto before = tree_of(dir_ / "");
    for (const bool clean : {true, false}) {
      const Error error = catch_error([&] {
        if (clean) clean_staging(paths_);
        if (!clean) convert(plan_, overwriting(source_));
      });
      EXPECT_EQ(error.code(), ErrorCode::corrupt) << error.format();
      EXPECT_EQ(error.file(), note_);
      EXPECT_EQ(differing(before, tree_of(dir_ / "")), "");
    }
  }
  OutPaths paths_ = out_paths(source_);
  std::string note_ = join_path(paths_.staging, "publishing.json");
};

TEST_F(ForgedNote, NamesThatLeadOutsideAreRefused) {
  write_text(dir_ / "mine", "mine");
  const Json note = begun();
  for (const char* list : {"files", "stale", "made"}) {
    for (const char* name : {"../mine", "d/../../mine", "/mine", "", ".", "d//00000", "d/"}) {
      SCOPED_TRACE(std::string(list) + " " + name);
      Json forged = note;
      forged[list].array().insert(forged[list].array().begin(), Json(name));
      if (forged.at(list) == forged.at("files")) forged["inodes"].array().emplace_back(1);
      expect_refused(forged);
    }
  }
  for (const char* step : {"", "old", "..", "out/..", "/", "../source", "out/../../source"}) {
    SCOPED_TRACE(step);
    Json forged = note;
    forged["step"] = step;
    expect_refused(forged);
  }
}

TEST_F(ForgedNote, AListThatDoesNotFitIsRefused) {
  const Json note = begun();
  for (const char* list : {"files", "inodes"}) {
    SCOPED_TRACE(list);
    Json forged = note;
    forged[list] = Json::Array{};
    expect_refused(forged);
  }
  Json nothing = note;
  nothing["files"] = nothing["inodes"] = Json::Array{};
  expect_refused(nothing);
  Json made = note;
  made["made"].array().emplace_back("elsewhere");
  expect_refused(made);
}

// Notes from before 0.2.0 can't tell hfshard's files from others, so nothing is restored.
TEST_F(ForgedNote, OneWithoutInodesIsOfAnOlderVersion) {
  Json note = begun();
  note.object().erase("inodes");
  write_text(note_, dump_json(note));
  const auto before = tree_of(dir_ / "");
  for (const bool clean : {true, false}) {
    const Error error = catch_error([&] {
      if (clean) clean_staging(paths_);
      if (!clean) convert(plan_, overwriting(source_));
    });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.format();
    EXPECT_NE(error.hint_text().find(paths_.staging), std::string::npos) << error.format();
    EXPECT_EQ(differing(before, tree_of(dir_ / "")), "");
  }
}

TEST_F(ForgedNote, DirectoriesThatAreLinksAreRefused) {
  write_text(dir_ / "home/00000", "mine");
  const Json note = begun();
  const std::string directory = join_path(source_, "d");
  rename_path(directory, dir_ / "aside");
  std::filesystem::create_symlink(dir_ / "home", directory);
  expect_refused(note);
}

// Names alone don't show who wrote a file.
TEST_F(ForgedNote, FilesThatWereNotStagedStay) {
  Json note = begun();
  note["files"].array().insert(note["files"].array().begin(), Json("config.json"));
  note["inodes"].array().insert(note["inodes"].array().begin(), Json(1));
  write_text(note_, dump_json(note));
  const std::string ours = read_file(join_path(source_, "config.json"));
  EXPECT_TRUE(clean_staging(paths_));
  EXPECT_EQ(read_file(join_path(source_, "config.json")), ours);
}

TEST_F(ForgedNote, NothingReplacesWhatIsThere) {
  Json note = begun();
  note["stale"].array().emplace_back("config.json");
  write_text(note_, dump_json(note));
  write_text(join_path(paths_.staging, "old/config.json"), "forged");
  const std::string ours = read_file(join_path(source_, "config.json"));
  EXPECT_EQ(catch_error([&] { clean_staging(paths_); }).code(), ErrorCode::conflict);
  EXPECT_EQ(read_file(join_path(source_, "config.json")), ours);
}

TEST_F(ForgedNote, TheMistakeIsNamed) {
  const Json note = begun();
  const auto refused_with = [&](const char* list, const Json& value) {
    Json forged = note;
    forged[list] = value;
    write_text(note_, dump_json(forged));
    return catch_error([&] { clean_staging(paths_); }).sentence();
  };
  const std::string damaged = "the note of an interrupted publish is damaged: ";
  const auto count = note.at("files").as_array().size();
  EXPECT_EQ(refused_with("files", Json::Array{}), damaged + "it names no file");
  EXPECT_EQ(refused_with("inodes", Json::Array{}),
            damaged + "0 inodes for " + std::to_string(count) + " files");
  EXPECT_EQ(refused_with("stale", Json::Array{Json("../mine")}),
            damaged + "\"../mine\" leads outside the output");
  EXPECT_EQ(refused_with("made", Json::Array{Json("elsewhere")}),
            damaged + "no file needs the directory \"elsewhere\"");
  const std::string old = join_path(paths_.staging, "old");
  rename_path(old, dir_ / "aside");
  std::filesystem::create_symlink(dir_ / "aside", old);
  EXPECT_EQ(refused_with("stale", note.at("stale")), damaged + "\"" + old + "\" is a link");
}

TEST_F(ForgedNote, AnOlderNoteSaysHowToGoBackByHand) {
  Json note = begun();
  note.object().erase("inodes");
  write_text(note_, dump_json(note));
  const Error error = catch_error([&] { clean_staging(paths_); });
  EXPECT_EQ(error.sentence(),
            "an older hfshard wrote the note of an interrupted publish, without inodes");
  EXPECT_EQ(error.file(), paths_.staging);
  EXPECT_EQ(error.hint_text(),
            "repeat the command with the hfshard that began it; or move the files of " +
                join_path(paths_.staging, "old") + " back into " + source_ + ", and then: rm -r " +
                paths_.staging);
}

}  // namespace
}  // namespace hfshard
