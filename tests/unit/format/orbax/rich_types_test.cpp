// Node types of trees that are cut.

#include "catalog/rich_types.h"

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/heap.h"
#include "base/json.h"
#include "catalog/tree_structure.h"
#include "support/heap_members.h"

namespace hfshard {
namespace {

using Paths = std::vector<std::string>;

TreeEntry typed_entry(const std::vector<TreeKey>& keys, TreeEntry::Kind kind) {
  TreeEntry out;
  for (const TreeKey& key : keys) out.add_key(key.text, key.is_index);
  out.kind = kind;
  out.type = kind == TreeEntry::Kind::empty ? "Dict" : "np.ndarray";
  return out;
}

// Returns the text of a named tuple "S" with these members.
std::string named_tuple(const Paths& members) {
  std::string entries;
  for (const std::string& member : members)
    entries += (entries.empty() ? "" : ",") + (R"({"key":")" + member + R"(","value":null})");
  return R"({"category":"namedtuple","clazz":"S","entries":[)" + entries + R"(],"module":"m"})";
}

// {"opt": [{}, S(mu, nu), {"count": 0}], "step": 0}
TreeStructure typed_state() {
  using Kind = TreeEntry::Kind;
  TreeStructure out;
  out.entries = {typed_entry({{"opt", false}, {"0", true}}, Kind::empty),
                 typed_entry({{"opt", false}, {"1", true}, {"mu", false}}, Kind::array),
                 typed_entry({{"opt", false}, {"1", true}, {"nu", false}}, Kind::array),
                 typed_entry({{"opt", false}, {"2", true}, {"count", false}}, Kind::array),
                 typed_entry({{"step", false}}, Kind::array)};
  out.rich_types =
      R"({ "opt":[{},)" + named_tuple({"mu", "nu"}) + R"(,{"count":null}],"step":null})";
  return out;
}

TEST(SelectEntries, TheTypesOfNodesThatAreLeftStay) {
  const TreeStructure all = typed_state();
  Paths renamed;
  const auto without = [&](const std::string& path) {
    renamed.clear();
    return select_entries(
        all, [&](const TreeEntry& entry) { return entry.path != path; },
        [&](const std::string& list) { renamed.push_back(list); });
  };
  EXPECT_EQ(without("none").rich_types, all.rich_types) << "as it was written";
  EXPECT_EQ(without("opt.1.nu").rich_types,
            R"({"opt":[{},)" + named_tuple({"mu"}) + R"(,{"count":null}],"step":null})");
  EXPECT_EQ(renamed, Paths{});
  EXPECT_EQ(without("step").rich_types,
            R"({"opt":[{},)" + named_tuple({"mu", "nu"}) + R"(,{"count":null}]})");
  EXPECT_EQ(without("opt.2.count").rich_types,
            R"({"opt":[{},)" + named_tuple({"mu", "nu"}) + R"(],"step":null})");
  EXPECT_EQ(without("opt.0").rich_types,
            R"({"opt":{"1":)" + named_tuple({"mu", "nu"}) + R"(,"2":{"count":null}},"step":null})");
  EXPECT_EQ(renamed, Paths{"opt"});
}

TEST(SelectEntries, ATreeWithoutEntriesHasNoTypes) {
  const TreeStructure none = select_entries(
      typed_state(), [](const TreeEntry&) { return false; }, [](const std::string&) {});
  EXPECT_TRUE(none.entries.empty());
  EXPECT_EQ(none.rich_types, "");
}

TEST(Subtree, HasTheTypesOfItsNodes) {
  TreeStructure tree = typed_state();
  tree.attributes["run"] = 1;
  tree.entries.push_back(typed_entry({{"optimizer", false}}, TreeEntry::Kind::array));
  const TreeStructure below = subtree(tree, "opt");
  EXPECT_EQ(below.rich_types, "[{}," + named_tuple({"mu", "nu"}) + R"(,{"count":null}])");
  ASSERT_EQ(below.entries.size(), 4U) << "a name that only begins alike is another node";
  EXPECT_EQ(below.entries[2].path, "1.nu");
  EXPECT_EQ(below.entries[0].kind, TreeEntry::Kind::empty);
  EXPECT_EQ(below.attributes, tree.attributes);
  const TreeStructure deeper = subtree(tree, "opt.1");
  EXPECT_EQ(deeper.rich_types, named_tuple({"mu", "nu"}));
  ASSERT_EQ(deeper.entries.size(), 2U);
  EXPECT_EQ(deeper.entries[1].keys(), (std::vector<TreeKey>{{"nu", false}}));
  EXPECT_EQ(rich_types_below(tree.rich_types, "opt.2"), R"({"count":null})");
  EXPECT_EQ(rich_types_below(tree.rich_types, "opt.3"), "");
}

// A gap in the outer list doesn't change the list in it.
TEST(CloseGaps, ChangesOnlyTheListsThatHaveThem) {
  using Kind = TreeEntry::Kind;
  TreeStructure tree;
  for (const char* index : {"0", "1"}) {
    tree.entries.push_back(typed_entry({{"a", false}, {"1", true}, {index, true}}, Kind::array));
    tree.entries.push_back(typed_entry({{"b", false}, {index, true}}, Kind::array));
  }
  for (int i = 2; i < 11; ++i)
    tree.entries.push_back(typed_entry({{"b", false}, {std::to_string(i), true}}, Kind::array));
  Paths renamed;
  close_gaps(tree, [&](const std::string& path) { renamed.push_back(path); });
  EXPECT_EQ(renamed, Paths{"a"});
  EXPECT_EQ(tree.entries[2].keys(),
            (std::vector<TreeKey>{{"a", false}, {"1", false}, {"1", true}}));
  EXPECT_EQ(tree.entries.back().keys(), (std::vector<TreeKey>{{"b", false}, {"10", true}}));
  EXPECT_EQ(tree.entries.back().path, "b.10");
}

TEST(RichNodes, HaveThePathsAndUniqueNamesOfTheirKeys) {
  const std::string tuple = R"({"category":"custom","clazz":"tuple","entries":[null]})";
  const auto nodes = rich_nodes(R"({"a.b":[)" + tuple + R"(],"c":{"category":"namedtuple",)" +
                                R"("entries":[{"key":"0","value":)" + tuple + "}]}}");
  Paths found;
  for (const auto& [name, node] : nodes) found.push_back(name + " " + node.path + ": " + node.what);
  EXPECT_EQ(found, (Paths{"k1:c c: a named tuple .", "k1:ck1:0 c.0: a tuple",
                          "k3:a.bi1:0 a.b.0: a tuple"}));
  EXPECT_EQ(rich_nodes(tuple).at("").path, "");
  EXPECT_TRUE(rich_nodes("").empty());
  EXPECT_TRUE(rich_nodes("[null,{}]").empty());
  EXPECT_EQ(rich_nodes("{").at("").path, "") << "no JSON is one node";
}

TEST(CustomKeys, AreThoseOfTheTreeAndItsStepWithoutOurs) {
  TreeStructure tree;
  EXPECT_EQ(custom_keys(tree), Paths{});
  tree.attributes = parse_json(R"({"b":1,"hfshard":{}})", "t");
  tree.step = parse_json(
      R"({"custom_metadata":{"c":1,"hfshard":{}},"metrics":{"a":2},"other":{"d":1}})", "t");
  EXPECT_EQ(custom_keys(tree), (Paths{"a", "b", "c"}));
  tree.step["metrics"] = 3;
  EXPECT_EQ(custom_keys(tree), (Paths{"3", "b", "c"}));
}

TEST(CompareStructures, NamesEachDifferenceInTheOrderOfPaths) {
  using Kind = TreeEntry::Kind;
  TreeStructure a;
  a.entries = {typed_entry({{"z", false}}, Kind::empty), typed_entry({{"b", false}}, Kind::array),
               typed_entry({{"a", false}}, Kind::text)};
  TreeStructure b;
  b.entries = {typed_entry({{"y", false}}, Kind::empty), typed_entry({{"b", false}}, Kind::empty),
               typed_entry({{"a", false}}, Kind::text)};
  b.texts["a"] = "only in b";
  Paths found;
  for (const StructureDifference& item : compare_structures(a, b))
    found.push_back(item.path + ": " + item.what +
                    (item.only == StructureDifference::Side::a   ? " A"
                     : item.only == StructureDifference::Side::b ? " B"
                                                                 : ""));
  EXPECT_EQ(found, (Paths{"a: the strings differ", "b: an array in A, an empty Dict in B",
                          "y: an empty Dict B", "z: an empty Dict A"}));
}

TEST(HeapBytes, OfAStructureAreThoseOfEachMember) {
  using Set = void (*)(TreeStructure&, const std::string&);
  const Set members[] = {
      [](TreeStructure& t, const std::string& w) { t.entries.resize(1), t.entries[0].path = w; },
      [](TreeStructure& t, const std::string& w) { t.entries.resize(1), t.entries[0].type = w; },
      [](TreeStructure& t, const std::string& w) {
        t.entries.resize(1), t.entries[0].random_key = w;
      },
      [](TreeStructure& t, const std::string& w) { t.shardings = {w}; },
      [](TreeStructure& t, const std::string& w) { t.mesh_axes = {w}; },
      [](TreeStructure& t, const std::string& w) { t.texts[w] = 1; },
      [](TreeStructure& t, const std::string& w) { t.texts["x"] = w; },
      [](TreeStructure& t, const std::string& w) { t.attributes["x"] = w; },
      [](TreeStructure& t, const std::string& w) { t.step["x"] = w; },
      [](TreeStructure& t, const std::string& w) { t.item = w; },
      [](TreeStructure& t, const std::string& w) { t.rich_types = w; }};
  expect_heap_of_members(members);
  TreeStructure tree;
  tree.entries.resize(1);
  const std::uint64_t before = heap_bytes(tree);
  tree.entries[0].ends.resize(30);
  EXPECT_GE(heap_bytes(tree), before + 120);
}

// Two entries can have one path, if a key has dots.
TEST(CompareStructures, EntriesOfOnePathAreToldApartByTheirKeys) {
  const TreeEntry one = typed_entry({{"a.b", false}}, TreeEntry::Kind::array);
  const TreeEntry two = typed_entry({{"a", false}, {"b", false}}, TreeEntry::Kind::array);
  TreeStructure a;
  a.entries = {one, two};
  TreeStructure b;
  b.entries = {two, one};
  EXPECT_TRUE(compare_structures(a, b).empty());
  EXPECT_EQ(structure_sha256(a), structure_sha256(b));
  b.entries = {two, two};
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
}

}  // namespace
}  // namespace hfshard
