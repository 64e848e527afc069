#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "bytes/local/files.h"
#include "format/orbax/open.h"
#include "format/orbax/orbax.h"
#include "support/catch_error.h"
#include "support/failed_reads.h"
#include "support/temp_dir.h"
#include "unit/format/orbax/builder.h"

namespace hfshard::format::orbax {
namespace {

// A file in an item directory: enough to be found.
void make_item(const std::string& item) { write_text(item + "/manifest.ocdbt", ""); }

TEST(OrbaxLocate, TheHighestStepIsByNumberAndOnlyDirectoriesCount) {
  const TempDir dir;
  make_item(dir / "9/items");
  make_item(dir / "10/items");
  EXPECT_EQ(locate(dir.path()).item, dir / "10/items");
  make_item(dir / "100/items");
  make_item(dir / "300x/items");
  make_item(dir / "step_400/items");
  write_text(dir / "500", "a file");
  EXPECT_EQ(locate(dir.path()).item, dir / "100/items");
  EXPECT_EQ(locate(dir.path()).step, dir / "100");
}

TEST(OrbaxLocate, TheOnlyItemIsMeantWhateverItsName) {
  for (const char* name : {"items", "state", "default", "params", "my weights"}) {
    const TempDir dir;
    make_item(dir / ("7/" + std::string(name)));
    EXPECT_EQ(locate(dir.path()).item, dir / ("7/" + std::string(name)));
    write_text(dir / "7/_CHECKPOINT_METADATA", "{}");
    EXPECT_EQ(locate(dir / "7").item, dir / ("7/" + std::string(name)));
    EXPECT_EQ(locate(dir / "7").step, dir / "7");
  }
  const TempDir dir;
  for (const char* name : {"default", "items", "state"})
    make_item(dir / ("7/" + std::string(name)));
  write_text(dir / "7/iter/process_0-of-1.json", "{}");  // not a tree
  const Error error = catch_error([&] { locate(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), dir / "7");
  EXPECT_NE(error.sentence().find("default, items, state"), std::string::npos);
  EXPECT_EQ(error.hint_text(), "pass --items items to select one");
}

// Checkpointers without items save this way, under the user's name.
TEST(OrbaxLocate, AStepMayBeItsOwnItem) {
  for (const std::string name : {"100", "00100", "checkpoint_100"}) {
    const TempDir dir;
    make_item(dir / name);
    make_item(dir / (name + "/ocdbt.process_0"));
    EXPECT_EQ(locate(dir.path()).item, dir / name);
    EXPECT_EQ(locate(dir.path()).step, dir / name);
    EXPECT_EQ(locate(dir.path(), {100, ""}).item, dir / name);
    EXPECT_EQ(catch_error([&] { locate(dir.path(), {100, "x"}); }).code(), ErrorCode::not_found);
  }
  const TempDir parts;
  make_item(parts / "7/items/ocdbt.process_0");
  write_text(parts / "7/other.orbax-checkpoint-tmp/manifest.ocdbt", "");
  EXPECT_EQ(catch_error([&] { locate(parts.path()); }).code(), ErrorCode::corrupt);
}

TEST(OrbaxLocate, AStepAndItsItemsAreChosen) {
  const TempDir dir;
  for (const char* item : {"3/params", "3/opt", "12/params"}) make_item(dir / item);
  EXPECT_EQ(locate(dir.path()).item, dir / "12/params");
  EXPECT_EQ(locate(dir.path(), {3, "opt"}).item, dir / "3/opt");
  EXPECT_EQ(locate(dir / "3", {{}, "params"}).item, dir / "3/params");
  const auto fails = [&](const std::string& path, const Choice& choice) {
    return catch_error([&] { locate(path, choice); });
  };
  const Error no_step = fails(dir.path(), {4, ""});
  EXPECT_EQ(no_step.code(), ErrorCode::not_found);
  EXPECT_EQ(no_step.hint_text(), "there are 3, 12");
  const Error no_items = fails(dir.path(), {3, "state"});
  EXPECT_EQ(no_items.code(), ErrorCode::not_found);
  EXPECT_EQ(no_items.file(), dir / "3");
  EXPECT_EQ(no_items.hint_text(), "there are opt, params");
  EXPECT_EQ(fails(dir.path(), {3, ""}).code(), ErrorCode::bad_input);
  EXPECT_EQ(fails(dir / "3", {3, "opt"}).code(), ErrorCode::usage);
  EXPECT_EQ(fails(dir / "3/opt", {3, ""}).code(), ErrorCode::usage);
  EXPECT_EQ(fails(dir / "3/opt", {{}, "opt"}).code(), ErrorCode::usage);
  write_text(dir / "3/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(fails(dir / "3", {3, "opt"}).code(), ErrorCode::usage);
}

TEST(OrbaxLocate, ALoaderDefaultsToAUsualItemAndElseToTheFirstOfAModel) {
  Choice usual;
  usual.usual_items = true;
  const TempDir dir;
  for (const char* item : {"7/optimizer", "7/policy", "7/reward"}) make_item(dir / item);
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/policy");
  EXPECT_EQ(orbax_format().parsed_files(dir / "7").at(0).text(), dir / "7/policy/_METADATA");
  make_item(dir / "7/state");
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/state");
  make_item(dir / "7/pytree");  // the default of Orbax's v1 interface
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/pytree");
  EXPECT_EQ(catch_error([&] { locate(dir.path()); }).hint_text(),
            "pass --items pytree to select one");
  write_text(dir / "7/items/notes.txt", "");  // not a tree
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/pytree");
  std::filesystem::remove_all(dir / "7/pytree");
  const TempDir states;
  for (const char* item : {"7/optimizer", "7/optimizer_state"}) make_item(states / item);
  EXPECT_EQ(locate(states.path(), usual).item, states / "7/optimizer");
  Choice alone;
  alone.model_alone = true;
  EXPECT_EQ(catch_error([&] { locate(states.path(), alone); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] { locate(dir.path(), alone); }).code(), ErrorCode::bad_input);
  std::filesystem::remove_all(dir / "7/state");
  std::filesystem::remove_all(dir / "7/reward");
  EXPECT_EQ(locate(dir.path(), alone).item, dir / "7/policy");
}

// Source: google/orbax checkpoint/orbax/checkpoint/_src/path/step.py, standard_name_format.
TEST(OrbaxLocate, StepsAreNamedAsOrbaxsNameFormatsDo) {
  const auto highest = [](const std::vector<std::string>& names) {
    const TempDir dir;
    for (const std::string& name : names) make_item(dir / (name + "/default"));
    write_text(dir / "model_000099/notes.txt", "");  // not a step
    std::filesystem::create_directory(dir / "model_000098");
    const std::string item = locate(dir.path()).item.name();
    EXPECT_EQ(find_checkpoint(dir.path())->directory, item.substr(0, item.rfind('/')));
    return item.substr(dir.path().size() + 1);
  };
  EXPECT_EQ(highest({"00000009", "00000100"}), "00000100/default");
  EXPECT_EQ(highest({"model_000003", "model_000012"}), "model_000012/default");
  EXPECT_EQ(highest({"100", "099", "005"}), "100/default");
  EXPECT_EQ(highest({"99", "0100"}), "0100/default");
  EXPECT_EQ(highest({"my_model_9", "my_model_10"}), "my_model_10/default");
  EXPECT_EQ(highest({"model_000003", "00000001"}), "00000001/default");
  EXPECT_EQ(highest({"model_000003", "00000002", "1"}), "00000002/default");
  for (const std::vector<std::string>& names :
       std::vector<std::vector<std::string>>{{"a_1", "b_2"}, {"a-1"}}) {
    const Error error = catch_error([&] { highest(names); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(error.hint_text().find(names[0]), std::string::npos);
  }
}

// A format with a fixed length pads only the numbers that don't fill it.
TEST(OrbaxLocate, StepsArePaddedUpToAFixedLength) {
  const TempDir dir;
  for (const char* name : {"050", "099", "100", "1000"}) make_item(dir / name);
  make_item(dir / "model_2000");
  const auto found = find_checkpoint(dir.path());
  ASSERT_TRUE(found);
  std::vector<std::uint64_t> numbers;
  for (const Found::Step& step : found->steps) numbers.push_back(step.number);
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{50, 99, 100, 1000}));
  EXPECT_EQ(locate(dir.path(), {99, ""}).item, dir / "099");
  make_directories(dir / "0900");  // of a run that died
  write_text(dir / "0800/x", "");  // not a step
  EXPECT_EQ(find_checkpoint(dir.path())->steps.size(), 5U);
  make_item(dir / "99");
  EXPECT_EQ(locate(dir.path(), {99, ""}).item, dir / "99");
}

TEST(OrbaxLocate, AFewDirectoriesOfOtherNamesAreNamed) {
  const TempDir dir;
  for (const char* name : {"a-1", "b-1", "c-1", "d-1", "e-1"})
    make_item(dir / (std::string(name) + "/items"));
  write_text(dir / "README", "");
  const Error error = catch_error([&] { locate(dir.path()); });
  EXPECT_TRUE(error.hint_text().ends_with("a-1, b-1, c-1, d-1")) << error.hint_text();
}

TEST(OrbaxLocate, FilesNextToDirectoriesOfOtherNamesAreNotNamed) {
  const TempDir dir;
  make_item(dir / "b-1/items");
  for (const char* name : {"a-1", "c-1"}) write_text(dir / name, "a file");
  const Error error = catch_error([&] { locate(dir.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.hint_text(), "pass one of the directories below it: b-1");
}

TEST(OrbaxLocate, AFileIsNeitherAnItemNorAStep) {
  const TempDir dir;
  make_item(dir / "7/items");
  write_text(dir / "file", "x");
  EXPECT_TRUE(is_item_place(StorePath(dir / "7/items")));
  EXPECT_FALSE(is_item_place(StorePath(dir / "file")));
  EXPECT_TRUE(is_step_with_items(StorePath(dir / "7")));
  EXPECT_FALSE(is_step_with_items(StorePath(dir / "7/items")));
  EXPECT_FALSE(is_step_with_items(StorePath(dir / "file")));
}

// Only a step by hfshard has a plan. Other values of its metadata are ignored.
TEST(OrbaxLocate, APlanIsThatOfTheItemThatTheStepNames) {
  const auto plan_of_step = [](const std::string& ours) {
    const TempDir dir;
    OrbaxBuilder builder;
    builder.leaf("params.params.w", DType::f32, {4}, {4}).build();
    builder.tree().custom_metadata = parse_json(R"({"hfshard":)" + ours + "}", "custom");
    builder.write(dir / "7");
    return find_checkpoint(dir.path())->plan_id;
  };
  const std::string plan_id(64, 'a');  // the builder's
  const auto with = [&](const std::string& item) {
    return plan_of_step(R"({"plan_id":")" + plan_id + R"(","item":)" + item + "}");
  };
  EXPECT_EQ(with(R"("items")"), plan_id);
  EXPECT_EQ(with("7"), plan_id);
  EXPECT_EQ(with(R"("../items")"), plan_id);
  EXPECT_EQ(with(R"("other")"), "");
  EXPECT_EQ(plan_of_step(R"({"plan_id":7})"), "");
  EXPECT_EQ(plan_of_step(R"({"plan_id":")" + std::string(64, 'b') + R"("})"), "");
}

TEST(OrbaxLocate, AnItemKnowsItsStepByTheStepsOwnFile) {
  const TempDir dir;
  make_item(dir / "7/items");
  EXPECT_FALSE(locate(dir / "7/items").step.has_value());
  write_text(dir / "7/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(locate(dir / "7/items").step, dir / "7/items/..");
  make_item(dir / "flat");  // step and item in one, from link --in-place
  write_text(dir / "flat/_CHECKPOINT_METADATA", "{}");
  EXPECT_EQ(locate(dir / "flat").step, dir / "flat");
  EXPECT_EQ(locate(dir / "flat").item, dir / "flat");
}

TEST(OrbaxLocate, AnUnfinishedStepOrItemIsCorruptHoweverItIsNamed) {
  const TempDir dir;
  make_item(dir / "5.orbax-checkpoint-tmp-3/items");
  make_item(dir / "6/items.orbax-checkpoint-tmp");
  for (const char* path :
       {"5.orbax-checkpoint-tmp-3", "5.orbax-checkpoint-tmp-3/", "5.orbax-checkpoint-tmp-3//",
        "6/items.orbax-checkpoint-tmp", "6/items.orbax-checkpoint-tmp/"}) {
    EXPECT_EQ(catch_error([&] { locate(dir / path); }).code(), ErrorCode::corrupt) << path;
  }
  const TempDir root;
  make_item(root / "5.orbax-checkpoint-tmp/items");
  write_text(root / "zz", "");
  const Error error = catch_error([&] { locate(root.path()); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_FALSE(error.hint_text().empty());
}

// Orbax's v1 interface leaves a record while it deletes an item.
TEST(OrbaxLocate, AnItemWhoseDeletionBeganIsNotRead) {
  const TempDir dir;
  for (const char* item : {"7/items", "7/opt"}) make_item(dir / item);
  const std::string record = dir / "7/_CHECKPOINT_DELETION";
  write_text(record, R"({"checkpointable_name":"opt"})");
  EXPECT_EQ(being_deleted(StorePath(dir / "7")), "opt");
  EXPECT_EQ(locate(dir.path(), {7, "items"}).item, dir / "7/items");
  for (const Error& error : {catch_error([&] { locate(dir / "7/opt"); }), catch_error([&] {
                               locate(dir.path(), {7, "opt"});
                             })}) {
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), dir / "7/opt");
    EXPECT_FALSE(error.hint_text().empty());
  }
  const auto bad_record = [&] {
    const Error error = catch_error([&] { being_deleted(StorePath(dir / "7")); });
    EXPECT_EQ(error.code(), ErrorCode::corrupt);
    EXPECT_EQ(error.file(), record);
    EXPECT_FALSE(error.hint_text().empty());
  };
  for (const char* text :
       {"[]", "{}", "{", R"({"checkpointable_name":3})", R"({"checkpointable_name":"../x"})"}) {
    write_text(record, text);
    bad_record();
  }
  std::filesystem::remove(record);
  EXPECT_FALSE(being_deleted(StorePath(dir / "7")));
  std::filesystem::create_directory(record);
  bad_record();
}

TEST(OrbaxLocate, AFailedReadOfAStepsRecordsIsTold) {
  const TempDir dir;
  make_item(dir / "7/items");
  write_text(dir / "7/_CHECKPOINT_DELETION", R"({"checkpointable_name":"opt"})");
  expect_failed_reads_are_told([&] { being_deleted(StorePath(dir / "7")); });
  expect_failed_reads_are_told([&] { locate(dir.path()); });
  write_text(dir / "8/_CHECKPOINT_METADATA", R"({"init_timestamp_nsecs":1})");
  EXPECT_EQ(why_incomplete(StorePath(dir / "8")), "was never committed: its writer didn't finish");
  expect_failed_reads_are_told([&] { why_incomplete(StorePath(dir / "8")); });
}

// The item that Orbax deletes isn't the one that is meant, even if it alone has a usual name.
TEST(OrbaxLocate, AnItemThatIsBeingDeletedIsNotChosen) {
  Choice usual;
  usual.usual_items = true;
  const TempDir dir;
  for (const char* item : {"7/items", "7/policy"}) make_item(dir / item);
  write_text(dir / "7/_CHECKPOINT_DELETION", R"({"checkpointable_name":"items"})");
  EXPECT_EQ(locate(dir.path(), usual).item, dir / "7/policy");
  EXPECT_EQ(locate(dir.path()).item, dir / "7/policy");
  write_text(dir / "8/items/notes.txt", "");
  std::filesystem::create_directory(dir / "8/state");
  write_text(dir / "8/_CHECKPOINT_DELETION", R"({"checkpointable_name":"items"})");
  EXPECT_EQ(catch_error([&] { locate(dir.path(), usual); }).file(), dir / "8/state");
}

// Only a writer that notes when it began needs to note that it ended.
TEST(OrbaxLocate, AStepIsIncompleteIfItsWriterBeganAndDidNotEnd) {
  const auto why = [](const std::string& metadata, bool has_commit_file = false) {
    const TempDir dir;
    make_item(dir / "7/items");
    write_text(dir / "7/_CHECKPOINT_METADATA", metadata);
    if (has_commit_file) write_text(dir / "7/commit_success.txt", "");
    return why_incomplete(StorePath(dir / "7"));
  };
  const std::string began = R"({"init_timestamp_nsecs":1,"commit_timestamp_nsecs":null})";
  EXPECT_NE(why(began).find("never committed"), std::string::npos) << why(began);
  EXPECT_EQ(why(began, true), "");
  EXPECT_EQ(why("{}"), "");
  EXPECT_EQ(why(R"({"init_timestamp_nsecs":1,"commit_timestamp_nsecs":2})"), "");
  EXPECT_EQ(why("[]"), "");
  EXPECT_EQ(why("{"), "") << "opening it reports that";
}

TEST(OrbaxLocate, AStepWithoutATreeOrWithUnmergedPartsIsIncomplete) {
  const TempDir dir;
  const auto why = [&] { return why_incomplete(StorePath(dir / "7")); };
  write_text(dir / "7/notes.txt", "");
  EXPECT_EQ(why(), "doesn't hold a tree of arrays");
  write_text(dir / "7/state/w/.zarray", "{}");  // a tree without metadata, under a usual name
  EXPECT_EQ(why(), "");
  make_item(dir / "7/opt/ocdbt.process_0");
  EXPECT_NE(why().find("didn't merge them"), std::string::npos) << why();
  make_item(dir / "7/opt");
  EXPECT_EQ(why(), "");
  make_item(dir / "flat");  // the step is its own item
  EXPECT_EQ(why_incomplete(StorePath(dir / "flat")), "");
}

TEST(OrbaxLocate, WhatIsNextToAnItemIsListedWithWhatIsBelowIt) {
  const TempDir dir;
  for (const char* item : {"7/items", "7/opt"}) make_item(dir / item);
  write_text(dir / "7/notes.txt", "x");
  write_text(dir / "7/deep/er/file", "x");
  std::filesystem::create_directory(dir / "7/deep/none");
  const auto beside = [&] { return find_beside(StorePath(dir.path()), {7, "items"}); };
  std::vector<std::string> files = beside().files;
  std::ranges::sort(files);
  EXPECT_EQ(files, (std::vector<std::string>{"deep/er/file", "notes.txt", "opt/manifest.ocdbt"}));
  EXPECT_EQ(beside().empty, std::vector<std::string>{"deep/none"});
  EXPECT_EQ(beside().directory.name(), dir / "7");
  // Records of a deletion, of the step and of this tree aren't copied, nor is what Orbax deletes.
  write_text(dir / "7/_CHECKPOINT_DELETION", R"({"checkpointable_name":"opt"})");
  write_text(dir / "7/hfshard.json", "{}");
  write_text(dir / "7/commit_success.txt", "");
  write_text(dir / "7/_CHECKPOINT_METADATA",
             R"({"item_handlers":{"items":"A","opt":"B","data":"C"},"metrics":{}})");
  files = beside().files;
  std::ranges::sort(files);
  EXPECT_EQ(files, (std::vector<std::string>{"deep/er/file", "notes.txt"}));
  EXPECT_EQ(dump_json(beside().attributes), R"({"item_handlers":{"data":"C"},"metrics":{}})");
  for (const std::string handlers : {"{}", R"({"item_handlers":"A"})"}) {
    write_text(dir / "7/_CHECKPOINT_METADATA", handlers);
    EXPECT_EQ(dump_json(beside().attributes), handlers);
  }
  std::filesystem::create_symlink("nowhere", dir / "7/deep/link");
  const Error error = catch_error([&] { beside(); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.file(), dir / "7/deep/link");
}

TEST(OrbaxLocate, NothingIsNextToATreeWithoutAStep) {
  const TempDir dir;
  make_item(dir / "7/items");
  write_text(dir / "7/notes.txt", "x");
  const auto names_beside = [&](const std::string& path) {
    const Beside beside = find_beside(StorePath(dir / path), {});
    EXPECT_TRUE(beside.directory.name().empty());
    return beside.files;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names_beside("7/items"), Names()) << "the parent isn't a step";
  make_item(dir / "flat");  // step and item in one
  write_text(dir / "flat/_CHECKPOINT_METADATA", "{}");
  write_text(dir / "flat/notes.txt", "x");
  EXPECT_EQ(names_beside("flat"), Names());
  EXPECT_EQ(find_other_items(StorePath(dir / "flat"), {}), Names());
  make_item(dir / "8");
  EXPECT_EQ(find_other_items(StorePath(dir.path()), {8, ""}), Names());
}

TEST(OrbaxLocate, OtherItemsAreAllEntriesButRecordsAndWhatOrbaxDeletes) {
  const TempDir dir;
  for (const char* item : {"7/items", "7/opt", "7/gone", "7/new.orbax-checkpoint-tmp"})
    make_item(dir / item);
  write_text(dir / "7/data/notes.txt", "x");
  for (const char* file :
       {"_CHECKPOINT_METADATA", "commit_success.txt", "orbax.checkpoint", "hfshard.json", "notes"})
    write_text(dir / ("7/" + std::string(file)), "{}");
  write_text(dir / "7/_CHECKPOINT_DELETION", R"({"checkpointable_name":"gone"})");
  using Names = std::vector<std::string>;
  EXPECT_EQ(find_other_items(StorePath(dir.path()), {7, "items"}), (Names{"data", "notes", "opt"}));
  EXPECT_EQ(find_other_items(StorePath(dir / "7/items"), {}), Names());
}

}  // namespace
}  // namespace hfshard::format::orbax
