// Runs can differ besides their arrays: in steps, metadata of the root, and other items.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "support/safetensors_builder.h"
#include "support/temp_dir.h"
#include "support/torch_checkpoint.h"
#include "unit/run/run_support.h"
#include "unit/service/diff_around_fixture.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Sets the metadata that a user gave a tree.
void set_custom_metadata(const std::string& tree, const std::string& json) {
  edit_metadata(tree,
                [&](Json& metadata) { metadata["custom_metadata"] = parse_json(json, "custom"); });
}

// A side that names its own step keeps it.
TEST_F(DiffAroundTest, TheStepIsForSidesThatNameNone) {
  const std::string run = convert_to("run");
  std::filesystem::copy(run + "/0", run + "/5", std::filesystem::copy_options::recursive);
  SourceName first(run);
  first.step = 5;
  DiffOptions options;
  options.step = 0;  // not the highest
  const DiffResult found = compare(first, run, options);
  EXPECT_EQ(found.a.step, 5U);
  EXPECT_EQ(found.b.step, 0U);
  EXPECT_EQ(found.a.other_steps, std::vector<std::uint64_t>{0});
  EXPECT_EQ(found.b.other_steps, std::vector<std::uint64_t>{5});
  EXPECT_TRUE(found.equal());
}

// Files of a run that hold no arrays: metadata of its root, and items of a step.
TEST_F(DiffAroundTest, FilesAroundTheArraysAreCompared) {
  using Around = StructureDiff::Kind;
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  const std::string root = "metadata/_ROOT_METADATA";
  const auto has = [](const char* value) {
    return fmt::format(R"({{"custom_metadata": {{"run": "{}"}}}})", value);
  };
  write_text(join_path(a, root), has("x"));
  EXPECT_TRUE(compare(a + "/0/items", b + "/0").equal()) << "one path is the item's own";
  EXPECT_TRUE(differs(compare(a, b), root, Around::only_a));
  EXPECT_TRUE(differs(compare(b, a), root, Around::only_b));
  write_text(join_path(b, root), has("y"));
  EXPECT_TRUE(differs(compare(a, b), root, Around::differs));
  EXPECT_TRUE(compare(a + "/0", b + "/0").equal()) << "only steps are named";
  write_text(join_path(b, root), has("x"));
  EXPECT_TRUE(compare(a, b).equal());

  const std::string item = "0/loader/state.json";
  write_text(join_path(a, item), R"({"at": 1, "of": 2})");
  EXPECT_TRUE(differs(compare(a, b), "loader", Around::only_a));
  write_text(join_path(b, item), R"({"at": 2, "of": 2})");
  EXPECT_TRUE(differs(compare(a, b), "loader/state.json", Around::differs)) << "of equal length";
  write_text(join_path(b, item), R"({"of": 2,   "at": 1})");
  EXPECT_TRUE(compare(a, b).equal()) << "the same JSON";
  write_text(join_path(a, item), "at 1");
  write_text(join_path(b, item), "at 2");
  EXPECT_TRUE(differs(compare(a, b), "loader/state.json", Around::differs)) << "not JSON";
  write_text(join_path(b, item), "at 1");
  EXPECT_TRUE(compare(a, b).equal());
  // Each names its own path.
  write_text(join_path(a, "0/loader/commit_success.txt"), "a");
  write_text(join_path(b, "0/loader/commit_success.txt"), "b");
  EXPECT_TRUE(compare(a, b).equal());
  write_text(join_path(b, "0/loader/more"), "");
  EXPECT_TRUE(differs(compare(a, b), "loader", Around::differs)) << "other files";
}

// A path that ends in an item doesn't have to be the other side's item.
TEST_F(DiffAroundTest, AnItemThatIsNamedByItsPathCanHaveAnotherName) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  std::filesystem::rename(a + "/0/items", a + "/0/average");
  EXPECT_TRUE(compare(a + "/0/average", b + "/0").equal());
  EXPECT_TRUE(compare(b + "/0", a + "/0/average").equal());
  EXPECT_TRUE(differs(compare(a + "/0", b + "/0"), "", StructureDiff::Kind::differs));
}

// The side that selects an item has others next to it. The other side is a path to an item.
TEST_F(DiffAroundTest, OneSelectedItemIsComparedWithoutTheItemsNextToIt) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  std::filesystem::copy(a + "/0/items", a + "/0/average", std::filesystem::copy_options::recursive);
  SourceName average(a + "/0");
  average.items = "average";
  EXPECT_TRUE(compare(average, b + "/0/items").equal());
  EXPECT_TRUE(compare(b + "/0/items", average).equal());
}

TEST_F(DiffAroundTest, ANodeThatIsNotComparedIsNotedWithTheReason) {
  const std::string stacked = convert_to("stacked");
  PlanOptions options = small_options();
  options.mapping.stacked = false;
  hfshard::convert(source_, options, run_to(dir_ / "separate"), quiet_);
  add_none(stacked);
  const auto noted = [&](const std::string& a, const std::string& b) {
    const DiffResult found = compare(a, b);
    EXPECT_TRUE(found.equal());
    EXPECT_FALSE(found.through.empty());
    std::vector<std::string> out;
    std::ranges::copy_if(found.notes, std::back_inserter(out), [](const std::string& note) {
      return note.starts_with("not compared, since ");
    });
    return out;
  };
  const std::string node = ": the strings and empty nodes \"note\" of ";
  const std::string held = "not compared, since the other side can't hold them" + node;
  EXPECT_EQ(noted(stacked, source_), (std::vector{held + "A"}));
  EXPECT_EQ(noted(source_, stacked), (std::vector{held + "B"}));
  const std::string laid_out =
      "not compared, since the trees differ in layout, and their arrays are compared as a model's" +
      node;
  EXPECT_EQ(noted(stacked, dir_ / "separate"), (std::vector{laid_out + "A"}));
  EXPECT_EQ(noted(dir_ / "separate", stacked), (std::vector{laid_out + "B"}));
}

// A list of Orbax can be a dict in a DCP, where its keys are text.
TEST_F(DiffAroundTest, AListThatBecameADictInAnotherFormatIsADifference) {
  // The keys of a DCP only count if one of its names isn't a path.
  const std::string flat = write_torch(dir_ / "flat", {"n", "n.b", "opt.0.x", "opt.1.x"});
  const std::string tree = dir_ / "tree";
  hfshard::convert(flat, reshard_options("orbax"), run_to(tree), quiet_);
  EXPECT_TRUE(compare(flat, tree).equal());
  make_list(tree, 2);
  const DiffResult found = compare(flat, tree);
  ASSERT_EQ(found.structure.size(), 1U);
  EXPECT_EQ(found.structure[0].kind, StructureDiff::Kind::differs);
  EXPECT_EQ(found.structure[0].name, "opt");
}

// A DCP can't have a list at its root.
TEST_F(DiffAroundTest, AListAtTheRootThatBecomesADictIsNamed) {
  const std::string flat = write_torch(dir_ / "flat", {"0.x", "1.x"});
  const std::string tree = dir_ / "tree";
  hfshard::convert(flat, reshard_options("orbax"), run_to(tree), quiet_);
  EXPECT_TRUE(compare(flat, tree).equal());
  make_list(tree, 1);
  const std::string back = dir_ / "back";
  const auto notes =
      hfshard::convert(tree, reshard_options("dcp"), run_to(back), quiet_).plan.notes;
  EXPECT_EQ(std::ranges::count(notes,
                               "the root is a list, and the root of a state is a dict: its indices "
                               "become keys"),
            1);
  const std::string files = dir_ / "files";
  const auto others =
      hfshard::convert(tree, reshard_options("safetensors"), run_to(files), quiet_).plan.notes;
  EXPECT_EQ(std::ranges::count_if(
                others, [](const std::string& note) { return note.starts_with("the root is"); }),
            0)
      << "names of files have no keys";
  for (const std::string& state : {flat, back}) {
    const DiffResult found = compare(state, tree);
    ASSERT_EQ(found.structure.size(), 1U);
    EXPECT_EQ(found.structure[0].name, "");
    EXPECT_EQ(found.structure[0].what, "a dict in A, a list in B");
    EXPECT_EQ(compare(tree, state).structure.at(0).what, "a list in A, a dict in B");
  }
}

TEST_F(DiffAroundTest, ATensorThatCannotBeReadIsNotedForEitherSide) {
  const std::string sound = dir_ / "sound.safetensors";
  const std::string odd = dir_ / "odd.safetensors";
  SafetensorsBuilder().tensor("w", DType::u8, {4}).write(sound);
  SafetensorsBuilder()
      .tensor("w", DType::u8, {4})
      .tensor("bad", DType::u8, {4})
      .lie_about("bad", "dtype", "\"F7\"")
      .write(odd);
  DiffOptions options;
  options.exclude = {"bad"};
  for (const auto& [a, b] : {std::pair(sound, odd), std::pair(odd, sound)}) {
    const DiffResult found = diff(a, b, options, run_to(""), quiet_);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.notes,
              (std::vector{odd + ": not compared, since hfshard can't read it: \"bad\""}));
  }
}

TEST_F(DiffAroundTest, ObjectsThatOneSideLacksAreNamedAndTheOthersCompared) {
  using Around = StructureDiff::Kind;
  const std::string a = write_objects(dir_ / "a", {{"b", "one"}, {"d", "two"}, {"z", "last"}});
  const std::string b = write_objects(dir_ / "b", {{"a", "first"}, {"b", "one"}, {"d", "TWO"}});
  const DiffResult found = compare(a, b);
  EXPECT_EQ(found.compared_objects, 2U);
  ASSERT_EQ(found.structure.size(), 3U);
  EXPECT_TRUE(differs(found, "a", Around::only_b));
  EXPECT_TRUE(differs(found, "d", Around::differs));
  EXPECT_TRUE(differs(found, "z", Around::only_a));
}

TEST_F(DiffAroundTest, AnObjectWhoseFileIsGoneIsDamagedOnThatSide) {
  const std::string a = write_objects(dir_ / "a", {{"b", "one"}});
  const std::string b = write_objects(dir_ / "b", {{"b", "one"}});
  std::filesystem::remove(join_path(a, TorchCheckpoint::kDataFile));
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(b, a) : compare(a, b);
    ASSERT_EQ(found.structure.size(), 1U);
    EXPECT_EQ(found.structure[0].kind, StructureDiff::Kind::damaged);
    EXPECT_EQ(found.structure[0].name, "b");
    EXPECT_TRUE(found.structure[0].what.starts_with(swap ? "B: " : "A: "))
        << found.structure[0].what;
  }
}

TEST_F(DiffAroundTest, CustomMetadataThatIsNotComparedIsNotedUnlessHfshardWroteIt) {
  const std::string tree = convert_to("tree");
  const auto noted = [&] {
    std::vector<std::string> out;
    std::ranges::copy_if(
        compare(tree, source_).notes, std::back_inserter(out),
        [](const std::string& note) { return note.find("custom metadata") != std::string::npos; });
    return out;
  };
  EXPECT_EQ(noted(), std::vector<std::string>());
  set_custom_metadata(tree, R"({"run": 7})");
  std::filesystem::remove(tree + "/0/hfshard.json");  // so another program wrote it
  EXPECT_EQ(noted(), (std::vector<std::string>{
                         "not compared, since the other side can't hold them: the custom metadata "
                         "\"run\", \"scan_layers\" of A"}));
}

TEST_F(DiffAroundTest, AnItemIsSelectedOnTheSideThatHasSteps) {
  DiffOptions options;
  options.items = "items";
  const std::string tree = convert_to("tree");
  EXPECT_GT(compare(source_, tree, options).tensors.size(), 0U);
  EXPECT_GT(compare(tree, source_, options).tensors.size(), 0U);
}

TEST_F(DiffAroundTest, ADamagedTreeNextToTheItemIsAnError) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  for (const std::string& to : {a, b}) {
    std::filesystem::copy(to + "/0/items", to + "/0/average",
                          std::filesystem::copy_options::recursive);
  }
  const std::string metadata = a + "/0/average/_METADATA";
  write_text(metadata, "{");
  const Error error = catch_error([&] { compare(a, b); });
  EXPECT_NE(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.file(), metadata);
}

TEST_F(DiffAroundTest, AFileThatOnlyOneModelHasIsNoted) {
  const std::string other = copy_fixture("qwen3", dir_ / "other");
  write_text(other + "/tokenizer.json", "{}");
  for (const bool swap : {false, true}) {
    const DiffResult found = swap ? compare(other, source_) : compare(source_, other);
    EXPECT_TRUE(found.equal());
    EXPECT_EQ(found.notes,
              std::vector<std::string>{"no arrays, but different: \"tokenizer.json\""});
  }
}

// A run and a step: only one side was chosen from a root.
TEST_F(DiffAroundTest, MetadataOfTheRunIsComparedBetweenRootsOnly) {
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  write_text(a + "/metadata/_ROOT_METADATA", R"({"custom_metadata": {"run": 1}})");
  const DiffResult found = compare(a, b);
  ASSERT_EQ(found.structure.size(), 1U);
  EXPECT_EQ(found.structure[0].what, "metadata of the run");
  for (const auto& [root, step] : {std::pair(a, b + "/0"), std::pair(b, a + "/0")}) {
    EXPECT_TRUE(compare(root, step).equal()) << root;
    EXPECT_TRUE(compare(step, root).equal()) << root;
  }
}

TEST_F(DiffAroundTest, ItemsAreOfSteps) {
  DiffOptions options;
  options.items = "items";
  const Error error = catch_error([&] { compare(source_, source_, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.hint_text(), "leave out --items");
  const std::string a = convert_to("a");
  EXPECT_TRUE(compare(a, a, options).equal());
}

TEST_F(DiffAroundTest, FilesOfAnItemAreComparedByTheirBytes) {
  SafetensorsBuilder builder;
  builder.tensor("x", DType::f32, {2});
  write_text(dir_ / "small/model.safetensors", builder.build());
  PlanOptions plain;
  plain.mapping.scheme = "hf";
  const std::string a = dir_ / "a";
  const std::string b = dir_ / "b";
  for (const std::string& run : {a, b}) {
    hfshard::convert(dir_ / "small", plain, run_to(run), quiet_);
    write_text(run + "/0/notes/text", "one");
  }
  EXPECT_TRUE(compare(a, b).equal());
  write_text(b + "/0/notes/text", "two");
  const DiffResult bytes = compare(a, b);
  ASSERT_EQ(bytes.structure.size(), 1U);
  EXPECT_EQ(bytes.structure[0].name, "notes/text");
  EXPECT_EQ(bytes.structure[0].what, "the files hold different bytes");
  EXPECT_EQ(to_string(bytes.structure[0].kind), "differs");
  write_text(b + "/0/notes/more", "");
  const DiffResult files = compare(a, b);
  ASSERT_EQ(files.structure.size(), 1U);
  EXPECT_EQ(files.structure[0].name, "notes");
  EXPECT_EQ(files.structure[0].what, "the item has other files");
  std::filesystem::remove_all(b + "/0/notes");
  const DiffResult gone = compare(a, b);
  ASSERT_EQ(gone.structure.size(), 1U);
  EXPECT_EQ(to_string(gone.structure[0].kind), "only_a");
  EXPECT_EQ(gone.structure[0].name, "notes");
  EXPECT_EQ(gone.structure[0].what, "an item of the step");
  EXPECT_EQ(to_string(compare(b, a).structure.at(0).kind), "only_b");
}

// Both items are trees. Only the one next to the main one differs.
TEST_F(DiffAroundTest, AnotherTreeOfTheStepsAddsItsArraysAndCounts) {
  const auto tree_of = [&](const std::string& name, const std::string& bytes) {
    const std::string file = dir_ / (name + ".safetensors");
    SafetensorsBuilder().tensor("x", DType::u8, {4}, bytes).write(file);
    PlanOptions plain;
    plain.mapping.scheme = "hf";
    hfshard::convert(file, plain, run_to(dir_ / name), quiet_);
    return dir_ / name;
  };
  const std::string a = tree_of("a", "abcd");
  const std::string b = tree_of("b", "abcd");
  const std::string other = tree_of("other", "abXY");
  for (const auto& [from, to] : {std::pair(b, a), std::pair(other, b)}) {
    std::filesystem::copy(from + "/0/items", to + "/0/average",
                          std::filesystem::copy_options::recursive);
  }
  const DiffResult found = compare(a, b);
  EXPECT_EQ(found.a.tensors, 2U);
  EXPECT_EQ(found.b.tensors, 2U);
  EXPECT_EQ(found.compared_tensors, 2U);
  EXPECT_EQ(found.compared_bytes, 8U);
  EXPECT_EQ(found.differing_tensors, 1U);
  EXPECT_EQ(found.differing_elements, 2U);
  ASSERT_EQ(found.tensors.size(), 2U);
  EXPECT_EQ(found.tensors[0].name, "x");
  EXPECT_EQ(found.tensors[1].name, "average/x");
  EXPECT_EQ(found.tensors[1].kind, TensorDiff::Kind::values);
  std::filesystem::remove_all(b + "/0/average");
  const DiffResult same = compare(b, b);
  EXPECT_EQ(same.a.tensors, 1U);
  EXPECT_EQ(same.compared_bytes, 4U);

  std::filesystem::remove_all(a + "/0/average");  // an item with a tree and a file next to it
  for (const std::string& to : {a, b}) {
    std::filesystem::create_directory(to + "/0/mixed");
    std::filesystem::copy(to + "/0/items", to + "/0/mixed/tree",
                          std::filesystem::copy_options::recursive);
    write_text(to + "/0/mixed/zz", to == a ? "1" : "2");
  }
  const DiffResult mixed = compare(a, b);
  EXPECT_EQ(mixed.compared_tensors, 2U);
  ASSERT_EQ(mixed.structure.size(), 1U);
  EXPECT_EQ(mixed.structure[0].name, "mixed/zz");

  std::filesystem::rename(b + "/0/mixed/tree", b + "/0/mixed/other");
  const DiffResult renamed = compare(a, b);
  EXPECT_EQ(renamed.compared_tensors, 1U);
  ASSERT_EQ(renamed.structure.size(), 1U);
  EXPECT_EQ(renamed.structure[0].name, "mixed");
  EXPECT_EQ(renamed.structure[0].what, "the item has other files");
  for (const std::string& to : {a, b}) std::filesystem::remove(to + "/0/mixed/zz");
  EXPECT_EQ(compare(a, b).structure.size(), 1U) << "the same files, and other trees";
}

TEST_F(DiffAroundTest, AnotherTreeOfTheStepsIsNotTakenForAModel) {
  const auto tree_of = [&](const std::string& name) {
    const std::string file = dir_ / (name + ".safetensors");
    SafetensorsBuilder().tensor(name, DType::u8, {4}).write(file);
    PlanOptions plain;
    plain.mapping.scheme = "hf";
    hfshard::convert(file, plain, run_to(dir_ / name), quiet_);
    return dir_ / name;
  };
  const std::string a = convert_to("a");
  const std::string b = convert_to("b");
  for (const auto& [from, to] : {std::pair(tree_of("x"), a), std::pair(tree_of("y"), b)}) {
    std::filesystem::copy(from + "/0/items", to + "/0/average",
                          std::filesystem::copy_options::recursive);
  }
  const DiffResult found = compare(a, b);
  EXPECT_EQ(found.differing_tensors, 2U);
  EXPECT_EQ(found.notes, std::vector<std::string>());
}

}  // namespace
}  // namespace hfshard
