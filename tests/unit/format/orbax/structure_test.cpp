#include "format/orbax/structure.h"

#include <array>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/base64.h"
#include "base/coding.h"
#include "catalog/rich_types.h"
#include "catalog/tree_structure.h"
#include "format/orbax/metadata.h"
#include "format/orbax/open.h"
#include "support/catch_error.h"
#include "support/syscall_faults.h"
#include "support/temp_dir.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

TreeEntry entry(const std::vector<TreeKey>& keys, std::string type = "np.ndarray") {
  TreeEntry out;
  for (const TreeKey& key : keys) out.add_key(key.text, key.is_index);
  out.type = std::move(type);
  if (out.type == "Dict" || out.type == "List" || out.type == "None")
    out.kind = TreeEntry::Kind::empty;
  if (out.type == "string") out.kind = TreeEntry::Kind::text;
  return out;
}

TreeStructure optimizer_state() {
  TreeStructure out;
  out.entries = {entry({{"opt", false}, {"0", true}}, "Dict"),
                 entry({{"opt", false}, {"1", true}, {"mu.x", false}}),
                 entry({{"opt", false}, {"2", true}, {"count", false}}, "scalar"),
                 entry({{"step", false}})};
  return out;
}

std::vector<std::string> said(const TreeStructure& a, const TreeStructure& b) {
  std::vector<std::string> out;
  for (const StructureDifference& item : compare_structures(a, b))
    out.push_back(item.path + ": " + item.what +
                  std::array{"", " in A", " in B"}[static_cast<std::size_t>(item.only)]);
  return out;
}

using Texts = std::vector<std::string>;

TEST(TreeStructure, KeysKeepTheirDotsAndKinds) {
  const TreeEntry odd = entry({{"a.b", false}, {"", false}, {"3", true}, {"x.", false}});
  EXPECT_EQ(odd.path, "a.b..3.x.");
  EXPECT_EQ(odd.keys(),
            (std::vector<TreeKey>{{"a.b", false}, {"", false}, {"3", true}, {"x.", false}}));
  EXPECT_TRUE(TreeEntry().keys().empty());
}

TEST(TreeStructure, WhatDiffersIsNamed) {
  const TreeStructure a = optimizer_state();
  EXPECT_EQ(said(a, a), Texts());
  TreeStructure b = a;
  b.entries[1] =
      entry({{"opt", false}, {"1", false}, {"mu.x", false}});  // a list that becomes a dict
  EXPECT_EQ(said(a, b), (Texts{"opt: a list in A, a dict in B"}));
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
  b = a;
  b.entries[1] = entry({{"opt", false}, {"1", true}, {"mu", false}, {"x", false}});
  EXPECT_EQ(said(a, b).size(), 1U);
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
  b = a;
  b.entries[2].type = "jax.Array";
  EXPECT_EQ(said(a, b), (Texts{"opt.2.count: a scalar in A, an array in B"}));
  b = a;
  b.entries.erase(b.entries.begin());
  EXPECT_EQ(said(a, b), (Texts{"opt.0: an empty Dict in A"}));
  EXPECT_EQ(said(b, a), (Texts{"opt.0: an empty Dict in B"}));
  b = a;
  b.attributes["scan_layers"] = true;
  b.attributes["hfshard"]["version"] = "1";
  EXPECT_EQ(said(a, b), (Texts{": custom metadata \"scan_layers\": absent in A, true in B"}));
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
}

TEST(TreeStructure, KindsOfArraysThatAreRestoredAlikeAreAlike) {
  TreeStructure a = optimizer_state();
  TreeStructure b = a;
  b.entries[3].type = "jax.Array";
  b.attributes["hfshard"]["version"] = "1";
  std::swap(b.entries[0], b.entries[3]);
  EXPECT_EQ(said(a, b), Texts());
  EXPECT_EQ(structure_sha256(a), structure_sha256(b));
  b.entries[0].random_key = "rbg";
  EXPECT_EQ(said(a, b), (Texts{"step: an array in A, a random key (rbg) in B"}));
  a.entries[3].random_key = "rbg";
  EXPECT_EQ(said(a, b), Texts());
  b.entries[0].type = "scalar";
  EXPECT_EQ(said(a, b),
            (Texts{"step: a random key (rbg), restored as np.ndarray in A, scalar in B"}));
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
}

TEST(TreeStructure, StringsAreComparedByTheirValues) {
  TreeStructure a;
  a.entries = {entry({{"note", false}}, "string")};
  a.texts["note"] = "hi";
  TreeStructure b = a;
  EXPECT_EQ(said(a, b), Texts());
  b.texts["note"] = "ho";
  EXPECT_EQ(said(a, b), (Texts{"note: the strings differ"}));
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
}

TEST(TreeStructure, TheMetadataOfTheStepCount) {
  TreeStructure a = optimizer_state();
  a.attributes = "a text";
  EXPECT_EQ(custom_keys(a), Texts{"\"a text\""});
  a.attributes = Json();
  a.attributes["tree"] = 1;
  TreeStructure b = a;
  b.step["metrics"]["loss"] = 2;
  EXPECT_EQ(custom_keys(a), Texts{"tree"});
  EXPECT_EQ(custom_keys(b), (Texts{"loss", "tree"}));
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
  TreeStructure c = a;
  c.step["custom_metadata"]["loss"] = 2;
  EXPECT_NE(structure_sha256(b), structure_sha256(c));
}

TEST(RichTypes, APathFindsNodesWhoseKeysHaveDots) {
  const std::string rich = R"({"a":{"b.c":{"x":null},"d":null},"ab":{"y":null}})";
  EXPECT_EQ(rich_types_below(rich, "a.b.c"), R"({"x":null})");
  EXPECT_EQ(rich_types_below(rich, "ab"), R"({"y":null})");
  EXPECT_EQ(rich_types_below(rich, "a.d"), "") << "a leaf";
  EXPECT_EQ(rich_types_below(rich, "a.b"), "");
  EXPECT_EQ(rich_types_below(rich, "a_b.c"), "") << "no dot behind the key";
  EXPECT_EQ(rich_types_below("", "a"), "");
  const std::string both = R"({"a":{"b":{"q":null}},"a.b":{"c":{"z":null}}})";
  EXPECT_EQ(rich_types_below(both, "a.b.c"), R"({"z":null})");
}

TEST(RichTypes, TuplesAreNamedAndWhatCannotBeReadIsOneNode) {
  const std::string tuple = R"({"category":"custom","clazz":"tuple","entries":[null,null]})";
  const std::string named = R"({"category":"namedtuple","module":"optax","clazz":"State",)"
                            R"("entries":[{"key":"mu","value":)" +
                            tuple + "}]}";
  const auto nodes = rich_nodes(R"({"opt":)" + named + "}");
  Texts found;
  for (const auto& [name, node] : nodes) found.push_back(node.path + ": " + node.what);
  EXPECT_EQ(found, (Texts{"opt: a named tuple optax.State", "opt.mu: a tuple"}));
  EXPECT_TRUE(rich_nodes(R"({"opt":{"category":5}})").empty()) << "a dict with this key";
  const auto bad = rich_nodes(R"({"opt":{"category":"namedtuple"}})");
  ASSERT_EQ(bad.size(), 1U);
  EXPECT_EQ(bad.begin()->first, "");
  EXPECT_TRUE(bad.begin()->second.what.starts_with("node types that can't be read"));
}

// A list or tuple without its first element has a gap. The members of a named tuple have names.
TEST(RichTypes, WhatIsSelectedKeepsItsTypeIfItHasNoGap) {
  const auto custom = [](const std::string& name, const std::string& entries) {
    return R"({"category":"custom","clazz":")" + name + R"(","entries":)" + entries + "}";
  };
  const auto named = [](const std::string& entries) {
    return R"({"category":"namedtuple","clazz":"S","entries":)" + entries + "}";
  };
  const auto without = [](const std::string& rich, const std::string& key) {
    return select_rich_types(rich, [&](const auto& keys) { return keys.back().text != key; });
  };
  EXPECT_EQ(without(R"({"w":[null,null]})", "0"), R"({"w":{"1":null}})");
  EXPECT_EQ(without(R"({"w":[null,null]})", "1"), R"({"w":[null]})");
  const std::string tuple = R"({"w":)" + custom("tuple", "[null,null]") + "}";
  EXPECT_EQ(without(tuple, "0"), R"({"w":{"1":null}})");
  EXPECT_EQ(without(tuple, "1"), R"({"w":)" + custom("tuple", "[null]") + "}");
  const std::string mu = R"({"key":"mu","value":null})";
  const std::string nu = R"({"key":"nu","value":null})";
  EXPECT_EQ(without(named("[" + mu + "," + nu + "]"), "mu"), named("[" + nu + "]"));
  EXPECT_EQ(without(named("[" + mu + "]"), "mu"), "");
  const std::string other = R"({"w":)" + custom("Other", "[null,null]") + "}";
  EXPECT_EQ(without(other, "0"), other) << "a leaf";
  EXPECT_TRUE(rich_nodes(other).empty());
}

TEST(TreeStructure, OnlyWhatBothSidesCanHaveIsCompared) {
  const TreeStructure a = optimizer_state();
  TreeStructure b = a;
  b.entries.erase(b.entries.begin() + 1);
  EXPECT_EQ(said(a, b), Texts()) << "an array that only one has";
  b = a;
  b.item = "params";
  EXPECT_EQ(said(a, b), Texts());
  EXPECT_EQ(said(b, a), Texts());
  TreeStructure c = a;
  c.item = "state";
  EXPECT_EQ(said(b, c), Texts{": the item is \"params\" in A, \"state\" in B"});
  b = a;
  b.step["metrics"]["loss"] = 2;
  EXPECT_EQ(said(a, b), Texts()) << "an item without its step";
  EXPECT_EQ(said(b, a), Texts());
  c = a;
  c.step = Json::Object();
  EXPECT_EQ(said(c, b), Texts{": metrics of the step \"loss\": absent in A, 2 in B"});
  // hfshard writes the tree's metadata to a step without any.
  b = c;
  b.attributes["scan"] = c.attributes["scan"] = true;
  b.step["custom_metadata"]["scan"] = true;
  EXPECT_EQ(said(c, b), Texts());
  b.step["metrics"] = Json();
  EXPECT_EQ(said(c, b), Texts()) << "null is the same as no metrics";
}

// hfshard writes the tree's to a step without its own. Only their values for keys that the other
// step has are compared.
TEST(TreeStructure, MetadataOfAStepThatAreTheTreesOwnAreComparedKeyByKey) {
  TreeStructure a = optimizer_state();
  a.attributes = a.step = Json::Object();
  a.attributes["scan"] = a.step["custom_metadata"]["scan"] = true;
  a.attributes["size"] = a.step["custom_metadata"]["size"] = 3;
  TreeStructure b = a;
  b.step["custom_metadata"]["run"] = 7;
  const std::string of_step = ": custom metadata of the step ";
  EXPECT_EQ(said(a, b), Texts{of_step + "\"run\": absent in A, 7 in B"});
  EXPECT_EQ(said(b, a), Texts{of_step + "\"run\": 7 in A, absent in B"});
  b.step["custom_metadata"]["scan"] = false;
  EXPECT_EQ(said(a, b), (Texts{of_step + "\"run\": absent in A, 7 in B",
                               of_step + "\"scan\": true in A, false in B"}));
  b.step["custom_metadata"] = parse_json(R"({"run": 7})", "x");
  EXPECT_EQ(said(a, b), Texts{of_step + "\"run\": absent in A, 7 in B"});
  b.step["custom_metadata"] = parse_json("[1]", "x");
  EXPECT_EQ(said(a, b), Texts{": the custom metadata of the step differ"});
  a.attributes = a.step["custom_metadata"] = parse_json("[2]", "x");
  b = a;
  b.step["custom_metadata"] = Json();
  EXPECT_EQ(said(a, b), Texts());
}

TEST(TreeStructure, AListThatIsADictIsToldOnce) {
  const TreeStructure a = optimizer_state();
  TreeStructure b = a;
  b.entries[1] = entry({{"opt", false}, {"1", false}, {"mu.x", false}});
  b.entries[2] = entry({{"opt", false}, {"2", false}, {"count", false}}, "scalar");
  EXPECT_EQ(said(a, b), Texts{"opt: a list in A, a dict in B"});
  EXPECT_EQ(said(b, a), Texts{"opt: a dict in A, a list in B"});
}

TEST(TreeStructure, NodeTypesAreComparedWhereBothHaveTheNode) {
  TreeStructure a = optimizer_state();
  a.rich_types = R"({"opt":{"category":"custom","clazz":"tuple","entries":[null,null,null]}})";
  TreeStructure b = optimizer_state();
  EXPECT_EQ(said(a, b), Texts{"opt: a tuple in A, a plain list or dict in B"});
  EXPECT_EQ(said(b, a), Texts{"opt: a plain list or dict in A, a tuple in B"});
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
  const auto pair_of = [](const std::string& element) {
    return R"({"opt":{"category":"custom","clazz":"tuple","entries":[null,)" + element + ",null]}}";
  };
  const std::string named = R"({"category":"namedtuple","module":"m","clazz":"C","entries":[]})";
  a.rich_types = pair_of("null");
  b.rich_types = pair_of(named);
  EXPECT_EQ(said(a, b), Texts{"opt.1: a plain list or dict in A, a named tuple m.C in B"})
      << "both have the tuple above";
  a.rich_types = pair_of("null");
  b.rich_types.clear();
  b.entries.erase(b.entries.begin(), b.entries.begin() + 3);
  EXPECT_EQ(said(a, b), Texts{"opt.0: an empty Dict in A"});
  EXPECT_EQ(said(b, a), Texts{"opt.0: an empty Dict in B"});
}

TEST(TreeStructure, AListThatLosesElementsBecomesADict) {
  const TreeStructure all = optimizer_state();
  Texts renamed;
  const auto note = [&](const std::string& path) { renamed.push_back(path); };
  const TreeStructure front = select_entries(
      all, [](const TreeEntry& item) { return item.path != "opt.2.count"; }, note);
  EXPECT_EQ(renamed, Texts());
  EXPECT_EQ(front.entries[1].keys()[1], (TreeKey{"1", true}));
  const TreeStructure back = select_entries(
      all, [](const TreeEntry& item) { return item.path != "opt.0"; }, note);
  EXPECT_EQ(renamed, Texts{"opt"});
  EXPECT_EQ(back.entries[0].keys()[1], (TreeKey{"1", false}));
  EXPECT_EQ(back.entries[0].path, "opt.1.mu.x");
}

TEST(TreeStructure, ListsThatKeepTheirElementsStayLists) {
  TreeStructure all = optimizer_state();
  all.entries.push_back(entry({{"whole", false}, {"0", true}}));
  Texts renamed;
  const TreeStructure kept = select_entries(
      all, [](const TreeEntry& item) { return item.path != "opt.0"; },
      [&](const std::string& path) { renamed.push_back(path); });
  EXPECT_EQ(renamed, Texts{"opt"});
  EXPECT_EQ(kept.entries.back().keys()[1], (TreeKey{"0", true}));
}

TEST(TreeStructure, ASubtreeIsATreeOfItsOwn) {
  TreeStructure tree = optimizer_state();
  tree.entries.push_back(entry({{"opt", false}, {"note", false}}, "string"));
  tree.texts["opt.note"] = "hi";
  tree.rich_types = "{}";
  const TreeStructure below = subtree(tree, "opt");
  ASSERT_EQ(below.entries.size(), 4U);
  EXPECT_EQ(below.entries[1].path, "1.mu.x");
  EXPECT_EQ(below.entries[1].keys(), (std::vector<TreeKey>{{"1", true}, {"mu.x", false}}));
  EXPECT_EQ(below.texts.at("note"), Json("hi"));
  EXPECT_TRUE(below.rich_types.empty());
}

// Returns the text of a side file, or "none".
std::string side_file(const TreeSpec& tree, std::string_view name) {
  std::string out;
  for (const SideFile& file : structure_files(tree, "")) {
    if (file.path != name) continue;
    file.write([&](std::span<const std::byte> bytes) { out += as_text(bytes); });
    return out;
  }
  return "none";
}

TEST(StructureFiles, AMeshReplacesTheShardingsOfTheSource) {
  TreeStructure structure;
  structure.entries = {entry({{"w", false}}, "jax.Array")};
  structure.entries[0].sharding = 0;
  structure.shardings = {"recorded"};
  const std::vector<Leaf> leaves{{{"w", DType::u8, {4}}, {}, {}}};
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.structure = std::make_shared<const TreeStructure>(structure);
  const auto shardings_of = [&] { return side_file(tree, kShardingFile); };
  EXPECT_EQ(shardings_of(), R"({"dw==":"recorded"})");
  tree.mesh = {{"x", 2}};
  tree.shardings.push_back({{{"x"}}});
  EXPECT_EQ(shardings_of().find("recorded"), std::string::npos);
  EXPECT_NE(shardings_of().find(R"(\"partition_spec\":[\"x\"])"), std::string::npos);
}

// Orbax writes shards and reads their chunks.
TEST(StructureFiles, ArrayMetadataHasTheShapesOfShardsAndOfTheirChunks) {
  TreeStructure structure;
  structure.entries = {entry({{"w", false}}, "jax.Array")};
  const std::vector<Leaf> leaves{{{"w", DType::u8, {8}}, {}, {}}};
  PerLeaf<Grid> grids;
  grids.push_back({{8}, {4}, {2}});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  tree.structure = std::make_shared<const TreeStructure>(structure);
  ASSERT_EQ(structure_files(tree, "").size(), 1U);
  const std::string text = side_file(tree, "array_metadatas/process_0");
  EXPECT_NE(text.find(R"("write_shape":[4])"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("chunk_shape":[2])"), std::string::npos) << text;
}

TEST(StructureFiles, WhatOnlySomeEntriesHaveIsWrittenForThem) {
  TreeStructure structure;
  structure.entries = {entry({{"a", false}}, "jax.Array"), entry({{"b", false}}, "jax.Array")};
  structure.entries[0].sharding = 0;
  structure.entries[1].random_key = "rbg";
  structure.shardings = {"recorded"};
  const std::vector<Leaf> leaves{{{"a", DType::u8, {4, 2}}, {}, {}},
                                 {{"b", DType::u8, {4}}, {}, {}}};
  PerLeaf<Grid> grids;
  grids.push_back({{4, 2}, {4, 2}, {4, 2}});
  grids.push_back({{4}, {4}, {4}});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  const auto file = [&](std::string_view name) {
    tree.structure = std::make_shared<const TreeStructure>(structure);
    return side_file(tree, name);
  };
  EXPECT_EQ(file(kShardingFile), R"({"YQ==":"recorded"})");
  const std::string arrays = file("array_metadatas/process_0");
  EXPECT_NE(arrays.find(R"("ext_metadata":null,"param_name":"a")"), std::string::npos) << arrays;
  EXPECT_NE(arrays.find(R"("ext_metadata":{"random_key_impl":"rbg"},"param_name":"b")"),
            std::string::npos)
      << arrays;
  tree.mesh = {{"x", 2}};
  tree.shardings.push_back({{{}, {"x"}}});
  tree.shardings.push_back({{{}}});
  EXPECT_NE(file(kShardingFile).find(R"(\"partition_spec\":[null,\"x\"])"), std::string::npos);
  EXPECT_EQ(file("_strings.json"), "none");
  structure.entries.push_back(entry({{"note", false}}, "string"));
  structure.entries.push_back(entry({{"lost", false}}, "string"));
  structure.texts = {{"note", Json("hi")}, {"a", Json("not a string of the tree")}};
  EXPECT_EQ(file("_strings.json"), R"({"note":"hi"})");
}

TEST(StructureFiles, TheHandlerOfAnItemIsTheSourcesIfItNamesOne) {
  const auto handler = [](const std::string& step) {
    TreeStructure structure;
    structure.item = "params";
    structure.step = parse_json(step, "f");
    TreeSpec tree;
    tree.item = "state";
    tree.structure = std::make_shared<const TreeStructure>(structure);
    return dump_json(step_of_structure(tree, "own").at("item_handlers"));
  };
  EXPECT_EQ(handler("null"), R"({"state":"own"})");
  EXPECT_EQ(handler("{}"), R"({"state":"own"})");
  EXPECT_EQ(handler(R"({"item_handlers":"a.H"})"), R"({"state":"a.H"})");
  EXPECT_EQ(handler(R"({"item_handlers":{"params":"a.H","x":"b.H"}})"), R"({"state":"a.H"})");
  EXPECT_EQ(handler(R"({"item_handlers":{"x":"b.H"}})"), R"({"state":"own"})");
  EXPECT_EQ(handler(R"({"item_handlers":{"params":3}})"), R"({"state":"own"})");
}

TEST(ReadStructure, RandomKeysAreThoseOfArraysInTheTree) {
  const TempDir dir;
  write_text(dir / "array_metadatas/process_0",
             R"({"array_metadatas":[{"array_metadata":{"param_name":"a","ext_metadata":null}},)"
             R"({"array_metadata":{"param_name":"b","ext_metadata":{"random_key_impl":"rbg"}}},)"
             R"({"array_metadata":{"param_name":"z","ext_metadata":{"random_key_impl":"rbg"}}},)"
             R"({"array_metadata":{"param_name":"a","ext_metadata":{"x":1}}}]})");
  write_text(dir / "array_metadatas/process_1", "no random key, and no JSON");
  Tree tree;
  tree.entries = {entry({{"a", false}}), entry({{"b", false}})};
  std::vector<std::string> notes;
  const auto read = read_structure({dir.path(), {}}, tree, {}, notes);
  EXPECT_EQ(notes, Texts());
  EXPECT_EQ(read->entries[0].random_key, "");
  EXPECT_EQ(read->entries[1].random_key, "rbg");
}

TEST(ReadStructure, ShardingsThatAreNotUnderstoodNameNoMesh) {
  TreeStructure structure;
  structure.entries = {entry({{"a", false}}), entry({{"b", false}}), entry({{"c", false}})};
  Json json;
  const auto set = [&](const std::string& name, const Json& value) {
    json[encode_base64(name)] = value;
  };
  set("a", R"({"axis_names":[1,"x"]})");
  set("b", "{}");
  set("c", 3);
  set("z", R"({"axis_names":["y"]})");
  add_shardings(json, structure);
  EXPECT_EQ(structure.mesh_axes, Texts{"x"});
  EXPECT_EQ(structure.shardings, (Texts{R"({"axis_names":[1,"x"]})", "{}"}));
  EXPECT_EQ(structure.entries[2].sharding, TreeEntry::kNone);
}

TEST(StructureFiles, OnlyJaxArraysHaveAWriteShapeAndThoseWithoutALeafNoEntry) {
  TreeStructure structure;
  structure.entries = {entry({{"a", false}}, "jax.Array"),  entry({{"aa", false}}, "jax.Array"),
                       entry({{"b", false}}, "np.ndarray"), entry({{"c", false}}, "scalar"),
                       entry({{"d", false}}, "np.ndarray"), entry({{"e", false}}, "None")};
  const std::vector<Leaf> leaves{{{"a", DType::u8, {8}}, {}, {}},
                                 {{"b", DType::u8, {8}}, {}, {}},
                                 {{"c", DType::u8, {}}, {}, {}}};
  PerLeaf<Grid> grids;
  grids.push_back({{8}, {4}, {2}});
  grids.push_back({{8}, {4}, {2}});
  grids.push_back({{}, {}, {}});
  TreeSpec tree;
  tree.leaves = &leaves;
  tree.grids = &grids;
  tree.structure = std::make_shared<const TreeStructure>(structure);
  std::string text;
  write_tree_metadata(tree, [&](std::span<const std::byte> bytes) { text += as_text(bytes); });
  const Json entries = parse_json(text, "_METADATA").at("tree_metadata");
  const auto value = [&](const char* name) {
    return dump_json(entries.at(name).at("value_metadata"));
  };
  EXPECT_EQ(entries.as_object().size(), 4U) << "all but aa and d";
  for (const char* none : {"('aa',)", "('d',)"}) EXPECT_EQ(entries.find(none), nullptr) << none;
  EXPECT_EQ(side_file(tree, "array_metadatas/process_0").find("\"aa\""), std::string::npos);
  EXPECT_EQ(value("('a',)"),
            R"({"skip_deserialize":false,"value_type":"jax.Array","write_shape":[4]})");
  EXPECT_EQ(value("('b',)"), R"({"skip_deserialize":false,"value_type":"np.ndarray"})");
  EXPECT_EQ(value("('c',)"), R"({"skip_deserialize":false,"value_type":"scalar"})");
}

TEST(ReadStructure, AFailedReadIsNotANote) {
  const TempDir dir;
  write_text(dir / "_strings.json", "{}");
  Tree tree;
  std::vector<std::string> notes;
  const SyscallFault fault("pread", 1, EIO);
  const Error error = catch_error([&] { read_structure({dir.path(), {}}, tree, {}, notes); });
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_EQ(notes, Texts());
}

TEST(Base64, NamesComeBack) {
  for (const std::string name : {"", "a", "ab", "abc", "a.b/c d", "\xc3\xbc?>~~"})
    EXPECT_EQ(decode_base64(encode_base64(name)), name);
  EXPECT_EQ(encode_base64("k"), "aw==");
  EXPECT_EQ(encode_base64("\xfb\xff"), "-_8=");
}

}  // namespace
}  // namespace hfshard::format::orbax
