#include "service/structure.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "plan/compile/steps.h"
#include "service/tree_source.h"
#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/named_checkpoint.h"

namespace hfshard {
namespace {

TEST(CheckBeside, OnlyAnItemWithTheWholeNameOfTheTreeIsRefused) {
  Catalog tree;
  tree.beside.files = {"items_old/a", "metrics/metrics"};
  check_beside(tree, "items");
  check_beside(tree, "");
  const Error error = catch_error([&] { check_beside(tree, "metrics"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
}

// As text, 10 would be before 2. Keys of dicts are ordered as text.
TEST(StructureOfKeys, ElementsOfListsAreInTheOrderOfTheirNumbers) {
  Catalog source;
  for (const char* name : {"d.10", "d.2", "list.10", "list.2", "list.9.b"}) {
    TensorInfo info;
    info.name = name;
    source.tensors.push_back(info);
  }
  source.nested = {{"d.10", R"(["d", "10"])"},
                   {"d.2", R"(["d", "2"])"},
                   {"list.10", R"(["list", 10])"},
                   {"list.2", R"(["list", 2])"},
                   {"list.9.b", R"(["list", 9, "b"])"}};
  const auto tree = structure_of_keys(source);
  ASSERT_NE(tree, nullptr);
  std::vector<std::string> paths;
  for (const TreeEntry& entry : tree->entries) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"d.10", "d.2", "list.2", "list.9.b", "list.10"}));
}

// Returns the number of keys of a name in the tree of these names. Zero if it needs no tree.
std::size_t count_keys(const std::vector<std::string>& names, const std::string& name) {
  Catalog source;
  for (const std::string& each : names) source.tensors.emplace_back().name = each;
  const auto tree = structure_of_keys(source);
  if (tree == nullptr) return 0;
  const auto entry = std::ranges::find(tree->entries, name, &TreeEntry::path);
  return entry == tree->entries.end() ? 99 : entry->keys().size();
}

TEST(StructureOfKeys, ANameIsOneKeyIfItsPartsCantBeKeys) {
  EXPECT_EQ(count_keys({"a.b.c", "a.d"}, "a.d"), 0U);
  for (const char* odd : {"a/b.c", ".a", "a..b", "a."}) {
    EXPECT_EQ(count_keys({odd, "x.y.z"}, odd), 1U) << odd;
    EXPECT_EQ(count_keys({odd, "x.y.z"}, "x.y.z"), 3U) << odd;
  }
  EXPECT_EQ(count_keys({"a.b", "a.b.c", "x.y.z"}, "a.b.c"), 1U);
  EXPECT_EQ(count_keys({"a.b", "a.b.c", "x.y.z"}, "a.b"), 2U);
}

TreeEntry& add_entry(TreeStructure& tree, TreeEntry::Kind kind, const std::string& first,
                     const std::string& second, bool is_index) {
  TreeEntry& out = tree.entries.emplace_back();
  out.kind = kind;
  out.add_key(first, false);
  out.add_key(second, is_index);
  return out;
}

// hfshard marks the trees that it wrote from a nested state.
TEST(NestedOf, AFlatStateOfHfshardHasKeysOnlyIfItHasLists) {
  using EntryKind = TreeEntry::Kind;
  const auto nested = [](const TreeStructure& tree) {
    std::vector<std::string> notes;
    std::string out;
    for (const NestedName& name : nested_of(tree, notes)) out += name.name + name.keys + ";";
    EXPECT_TRUE(notes.empty());
    return out;
  };
  TreeStructure tree;
  add_entry(tree, EntryKind::array, "b", "c", false);
  add_entry(tree, EntryKind::text, "t", "u", false);
  EXPECT_EQ(nested(tree), R"(b.c["b","c"];)") << "of another program";
  tree.attributes = parse_json(R"({"hfshard": {"nested": true}})", "");
  EXPECT_EQ(nested(tree), R"(b.c["b","c"];)");
  tree.attributes = parse_json(R"({"hfshard": {}})", "");
  EXPECT_EQ(nested(tree), "");
  add_entry(tree, EntryKind::array, "a", "0", true);
  EXPECT_EQ(nested(tree), R"(a.0["a",0];b.c["b","c"];)");
}

TEST(BeyondArraysOf, EachPartIsNamedUnlessTheLoaderNeedsIt) {
  using PartNames = std::vector<std::string>;
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::array, "a", "number", false).type = "scalar";
  add_entry(tree, TreeEntry::Kind::array, "a", "random", false).random_key = "threefry2x32";
  add_entry(tree, TreeEntry::Kind::text, "a", "text", false);
  add_entry(tree, TreeEntry::Kind::empty, "a", "empty", false);
  const BeyondArrays found = beyond_arrays(tree, "a.empty");
  EXPECT_EQ(found.nodes, PartNames{"a.text"});
  EXPECT_EQ(found.numbers, PartNames{"a.number"});
  EXPECT_EQ(found.random_keys, PartNames{"a.random"});
  EXPECT_EQ(beyond_arrays(tree, "").nodes, (PartNames{"a.text", "a.empty"}));
}

TEST(StructureOfKeys, ANameWithoutKeysInANestedStateIsOneKey) {
  Catalog source;
  for (const char* name : {"a.b", "list.0"}) source.tensors.emplace_back().name = name;
  source.nested = {{"list.0", R"(["list", 0])"}};
  const auto tree = structure_of_keys(source);
  ASSERT_NE(tree, nullptr);
  ASSERT_EQ(tree->entries.size(), 2U);
  EXPECT_EQ(tree->entries[0].keys().size(), 1U);
  EXPECT_EQ(tree->entries[1].keys().size(), 2U);
}

TEST(NestedOf, AnArrayAtTheRootHasNoKeys) {
  TreeStructure tree;
  tree.entries.emplace_back();
  std::vector<std::string> notes;
  EXPECT_TRUE(nested_of(tree, notes).empty());
  EXPECT_TRUE(notes.empty());
}

TEST(KeepStructure, AStringNeedsItsText) {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::text, "a", "text", false);
  Catalog source;
  source.location = "place";
  CompiledModel model;
  const Error error = catch_error([&] { keep_structure(&tree, {}, source, model); });
  EXPECT_EQ(error.code(), ErrorCode::corrupt);
  EXPECT_EQ(error.sentence(),
            "the text of the string \"a.text\" is missing in _strings.json next to the tree");
  EXPECT_EQ(error.hint_text(),
            "restore that file, or pass --exclude 'a.text' to leave the string out");
  EXPECT_EQ(error.file(), "place");
  tree.texts["a.text"] = "words";
  keep_structure(&tree, {}, source, model);
  ASSERT_NE(model.structure, nullptr);
  EXPECT_EQ(model.structure->texts.at("a.text"), Json("words"));
}

TEST(NameBeyondModel, ANoteThatIsThereIsNotRepeated) {
  TreeStructure structure;
  add_entry(structure, TreeEntry::Kind::text, "a", "text", false);
  Catalog tree;
  tree.structure = std::make_shared<TreeStructure>(structure);
  CompiledModel model;
  name_beyond_model(tree, model);
  const std::vector<std::string> notes{
      "left out, because the output holds only arrays: the strings and empty nodes \"a.text\""};
  EXPECT_EQ(model.notes, notes);
  name_beyond_model(tree, model);
  EXPECT_EQ(model.notes, notes);
}

TEST(NameOtherItems, APlaceWithoutATreeHasNone) {
  const TempDir dir;
  CompiledModel model;
  name_other_items(StorePath(dir.path()), {}, true, model);
  EXPECT_TRUE(model.notes.empty());
}

// A flat state can lack elements. Orbax can't restore such a list.
TEST(KeepStructure, AListThatLacksElementsBecomesADict) {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::array, "list", "1", true);
  add_entry(tree, TreeEntry::Kind::array, "whole", "0", true);
  CompiledModel model;
  for (const TreeEntry& entry : tree.entries) model.leaves.emplace_back().name = entry.path;
  keep_structure(&tree, {}, {}, model);
  EXPECT_EQ(model.notes, std::vector<std::string>{
                             "the list \"list\" loses elements before others, so it becomes a dict "
                             "with their numbers as keys"});
  ASSERT_EQ(model.structure->entries.size(), 2U);
  EXPECT_FALSE(model.structure->entries[0].keys()[1].is_index);
  EXPECT_TRUE(model.structure->entries[1].keys()[1].is_index);
}

// The keys of a dict can be numbers and texts.
TEST(StructureOfKeys, ANumberAndATextAreOrderedAsTexts) {
  Catalog source;
  for (const char* name : {"d.10", "d.9"}) source.tensors.emplace_back().name = name;
  source.nested = {{"d.10", R"(["d", "10"])"}, {"d.9", R"(["d", 9])"}};
  const auto tree = structure_of_keys(source);
  ASSERT_NE(tree, nullptr);
  EXPECT_EQ(tree->entries.at(0).path, "d.10");
  EXPECT_EQ(tree->entries.at(1).path, "d.9");
}

// Returns a tree with a node of each kind that isn't a plain array of a dict.
TreeStructure tree_of_all_kinds() {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::array, "a", "number", false).type = "scalar";
  add_entry(tree, TreeEntry::Kind::array, "a", "random", false).random_key = "threefry2x32";
  add_entry(tree, TreeEntry::Kind::text, "a", "text", false);
  add_entry(tree, TreeEntry::Kind::empty, "opt_state", "none", false);
  tree.rich_types = R"({"category":"custom","clazz":"tuple","entries":[null]})";
  tree.attributes = parse_json(R"({"run": 1, "scan_layers": true})", "");
  return tree;
}

TEST(BeyondArraysOf, ATupleAtTheRootHasAName) {
  const BeyondArrays found = beyond_arrays(tree_of_all_kinds(), "");
  EXPECT_EQ(found.tuples, std::vector<std::string>{"the root"});
  EXPECT_EQ(found.custom_metadata, (std::vector<std::string>{"run", "scan_layers"}));
}

TEST(NameLeftOut, EachPartThatTheTargetCannotStoreHasANote) {
  using NoteList = std::vector<std::string>;
  const NoteList beyond{
      "left out, because the output holds only arrays: the strings and empty nodes \"a.text\"",
      "left out, because the output has no place for it: the custom metadata \"run\", "
      "\"scan_layers\"",
      "random keys become integer arrays: \"a.random\"",
      "Python's numbers become arrays without dimensions: \"a.number\"",
      "tuples and named tuples become lists and dicts: \"the root\""};
  CompiledModel model;
  name_left_out({"step", "opt_state.none"}, false, model);
  EXPECT_TRUE(model.notes.empty()) << "no structure";
  model.structure = std::make_shared<TreeStructure>(tree_of_all_kinds());
  name_left_out({"step", "opt_state.none"}, false, model);
  EXPECT_EQ(model.structure, nullptr);
  EXPECT_EQ(model.notes, beyond);
  CompiledModel recorded;
  recorded.structure = std::make_shared<TreeStructure>(tree_of_all_kinds());
  name_left_out({"a.number", ""}, true, recorded);
  EXPECT_EQ(recorded.notes,
            (NoteList{"left out, because the output holds only arrays: the strings and empty "
                      "nodes \"a.text\", \"opt_state.none\"",
                      beyond[2], beyond[4]}));
}

// A model's arrays are all below "a". The optimizer's state has an array and an empty node.
TEST(NameBeyondModel, NodesNextToArraysOfAnOptimizerAreNotNamed) {
  Catalog tree;
  for (const char* name : {"a.w", "other.w"}) tree.tensors.emplace_back().name = name;
  TreeStructure structure = tree_of_all_kinds();
  add_entry(structure, TreeEntry::Kind::text, "other", "text", false);
  add_entry(structure, TreeEntry::Kind::text, "alone", "text", false);
  tree.structure = std::make_shared<TreeStructure>(structure);
  CompiledModel model;
  model.transfers.emplace_back().sources = {0};
  name_beyond_model(tree, model);
  EXPECT_EQ(model.notes,
            (std::vector<std::string>{
                "left out, because the output holds only arrays: the strings and empty nodes "
                "\"a.text\", \"opt_state.none\", \"alone.text\"",
                "left out, because the output has no place for it: the custom metadata \"run\""}));
  CompiledModel kept;
  kept.transfers = model.transfers;
  kept.structure = tree.structure;
  name_beyond_model(tree, kept);
  EXPECT_TRUE(kept.notes.empty()) << "the output keeps the structure";
  Catalog flat;
  name_beyond_model(flat, kept);
  EXPECT_TRUE(kept.notes.empty());
}

TEST(KeepBeside, TheItemsAndFilesThatAreCopiedAreNamedOnce) {
  const TempDir dir;
  const auto notes_of = [&](const Beside& beside) {
    TreeSource tree(checkpoint_of(catalog_named({"w"})), StorePath(dir.path()), "");
    CompiledModel model;
    keep_beside(beside, tree, model);
    EXPECT_EQ(tree.catalog().beside.files, beside.files);
    return model.notes;
  };
  Beside beside;
  EXPECT_EQ(notes_of(beside), std::vector<std::string>{"the tree is the step's only item"});
  beside.files = {"loader/a", "loader/b", "metrics"};
  beside.empty = {"empty/below"};
  beside.root_files = {"metadata/_ROOT_METADATA"};
  EXPECT_EQ(notes_of(beside),
            std::vector<std::string>{
                "copied unchanged: metadata/_ROOT_METADATA, empty, loader, metrics"});
}

TEST(CheckBeside, TheErrorNamesTheItemAndTheWayOut) {
  Catalog tree;
  tree.beside.directory = StorePath("run/7");
  tree.beside.files = {"items/a"};
  const Error error = catch_error([&] { check_beside(tree, "items"); });
  EXPECT_EQ(error.sentence(),
            "another item of the step has the name \"items\", which the tree needs");
  EXPECT_EQ(error.file(), "run/7/items");
  EXPECT_EQ(error.hint_text(),
            "pass the step's directory instead of the item's, or leave out --items all");
}

// Only nodes that the user leaves out are lost, each with the reason.
TEST(KeepStructure, NodesThatAreLeftOutHaveTheirReason) {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::array, "a", "w", false);
  add_entry(tree, TreeEntry::Kind::array, "b", "w", false);
  add_entry(tree, TreeEntry::Kind::empty, "a", "none", false);
  add_entry(tree, TreeEntry::Kind::text, "b", "text", false);
  MappingOptions options;
  options.exclude = {"b.*"};
  CompiledModel model;
  model.leaves.emplace_back().name = "a.w";
  keep_structure(&tree, options, {}, model);
  ASSERT_NE(model.structure, nullptr);
  std::vector<std::string> paths;
  for (const TreeEntry& entry : model.structure->entries) paths.push_back(entry.path);
  EXPECT_EQ(paths, (std::vector<std::string>{"a.w", "a.none"}));
  ASSERT_EQ(model.left_out.size(), 1U);
  EXPECT_EQ(model.left_out[0].name, "b.text");
  EXPECT_EQ(model.left_out[0].why, left_out(options, "b.text")->why);
  CompiledModel none;
  keep_structure(nullptr, options, {}, none);
  EXPECT_EQ(none.structure, nullptr);
}

// The value of a code has another name, in the place of the code. A list stays one.
TEST(KeepStructure, ADecodedValueTakesThePlaceOfItsCodes) {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::array, "a", "w_packed", false);
  add_entry(tree, TreeEntry::Kind::array, "a", "w_scale", false);
  add_entry(tree, TreeEntry::Kind::array, "x", "0", true);
  const Catalog source = catalog_named({"a.w_packed", "a.w_scale", "x.0"});
  CompiledModel model;
  for (const char* name : {"a.w", "x.0"}) model.leaves.emplace_back().name = name;
  Transfer& coded = model.transfers.emplace_back();
  coded.sources = {0, 1};
  coded.target = 0;
  coded.decode = std::make_shared<Decode>();
  Transfer& plain = model.transfers.emplace_back();
  plain.sources = {2};
  plain.target = 1;
  keep_structure(&tree, {}, source, model);
  ASSERT_EQ(model.structure->entries.size(), 2U);
  EXPECT_EQ(model.structure->entries[0].path, "a.w");
  EXPECT_EQ(model.structure->entries[0].keys(), (std::vector<TreeKey>{{"a", false}, {"w", false}}));
  EXPECT_EQ(model.structure->entries[1].keys(), (std::vector<TreeKey>{{"x", false}, {"0", true}}));
  EXPECT_TRUE(model.left_out.empty());
}

TEST(NestedOf, AListWithGapsAndOneAtTheRootAreNoted) {
  TreeStructure tree;
  add_entry(tree, TreeEntry::Kind::text, "list", "0", true);
  add_entry(tree, TreeEntry::Kind::array, "list", "1", true);
  std::vector<std::string> notes;
  std::vector<NestedName> found = nested_of(tree, notes);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].keys, R"(["list","1"])");
  EXPECT_EQ(notes, std::vector<std::string>{"the list \"list\" loses elements before others, so it "
                                            "becomes a dict with their numbers as keys"});
  TreeStructure root;
  TreeEntry& entry = root.entries.emplace_back();
  entry.add_key("0", true);
  entry.add_key("w", false);
  notes.clear();
  found = nested_of(root, notes);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].keys, R"(["0","w"])");
  EXPECT_EQ(notes, std::vector<std::string>{root_becomes_dict("the root")});
}

}  // namespace
}  // namespace hfshard
