// The words for differences between trees, and for their nodes.

#include "catalog/tree_structure.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;
using EntryKind = TreeEntry::Kind;

TreeEntry entry_of(const std::vector<TreeKey>& keys, EntryKind kind, const std::string& type) {
  TreeEntry out;
  for (const TreeKey& key : keys) out.add_key(key.text, key.is_index);
  out.kind = kind;
  out.type = type;
  return out;
}

TreeStructure tree_with(const TreeEntry& entry) {
  TreeStructure out;
  out.entries = {entry};
  return out;
}

Texts differences(const TreeStructure& a, const TreeStructure& b) {
  Texts out;
  for (const StructureDifference& item : compare_structures(a, b))
    out.push_back(item.path + ": " + item.what);
  return out;
}

TEST(TreeWords, KeysThatDifferAreWrittenAsPythonIndexesThem) {
  const TreeStructure one = tree_with(entry_of({{"a.0", false}}, EntryKind::array, "np.ndarray"));
  const TreeStructure two =
      tree_with(entry_of({{"a", false}, {"0", true}}, EntryKind::array, "np.ndarray"));
  EXPECT_EQ(differences(one, two), Texts{"a.0: its keys are ['a.0'] in A, ['a'][0] in B"});
  const TreeStructure root = tree_with(entry_of({}, EntryKind::array, "np.ndarray"));
  const TreeStructure empty = tree_with(entry_of({{"", false}}, EntryKind::array, "np.ndarray"));
  EXPECT_EQ(differences(root, empty), Texts{": its keys are the tree itself in A, [''] in B"});
}

TEST(TreeWords, NodesOfOtherKindsAreNamed) {
  const auto node = [](EntryKind kind, const char* type) {
    return tree_with(entry_of({{"n", false}}, kind, type));
  };
  EXPECT_EQ(differences(node(EntryKind::empty, "None"), node(EntryKind::empty, "List")),
            Texts{"n: None in A, an empty List in B"});
  EXPECT_EQ(differences(node(EntryKind::text, "string"), node(EntryKind::array, "scalar")),
            Texts{"n: a string in A, a scalar in B"});
  EXPECT_EQ(differences(node(EntryKind::array, "np.ndarray"), node(EntryKind::empty, "None")),
            Texts{"n: an array in A, None in B"});
  EXPECT_EQ(differences(node(EntryKind::empty, "None"), TreeStructure()), Texts{"n: None"});
  EXPECT_EQ(differences(node(EntryKind::array, "scalar"), TreeStructure()), Texts());
}

TEST(TreeWords, MetadataThatIsNotAnObjectDiffersAsAWhole) {
  TreeStructure a;
  TreeStructure b;
  a.attributes = "one";
  EXPECT_EQ(differences(a, b), Texts{": the custom metadata differ"});
  b.attributes = "one";
  EXPECT_EQ(differences(a, b), Texts());
  a.attributes = parse_json(R"({"run": {"id": 1}, "same": 1})", "");
  b.attributes = parse_json(R"({"same": 1})", "");
  EXPECT_EQ(differences(a, b), Texts{": custom metadata \"run\": {\"id\":1} in A, absent in B"});
}

TEST(TreeWords, TheCustomMetadataOfTheStepHasItsOwnWords) {
  TreeStructure a;
  a.step = parse_json(R"({"custom_metadata": {"run": 1, "hfshard": {"v": 1}}})", "");
  TreeStructure b;
  b.step = parse_json(R"({"custom_metadata": {"run": 2, "hfshard": {"v": 2}}})", "");
  EXPECT_EQ(differences(a, b), Texts{": custom metadata of the step \"run\": 1 in A, 2 in B"});
  EXPECT_EQ(custom_keys(a), Texts{"run"});
  EXPECT_NE(structure_sha256(a), structure_sha256(b));
  b.step = a.step;
  b.step["custom_metadata"]["hfshard"]["v"] = 3;
  EXPECT_EQ(differences(a, b), Texts());
  EXPECT_EQ(structure_sha256(a), structure_sha256(b));
}

TEST(TreeWords, AListAtTheRootThatLosesElementsIsNamedByAnEmptyPath) {
  TreeStructure tree;
  tree.entries = {entry_of({{"0", true}}, EntryKind::text, "string"),
                  entry_of({{"1", true}, {"w", false}}, EntryKind::array, "scalar"),
                  entry_of({{"1", true}, {"v", false}}, EntryKind::array, "scalar")};
  Texts renamed;
  const auto note = [&](const std::string& list) { renamed.push_back(list); };
  const TreeStructure kept = select_entries(
      tree, [](const TreeEntry& entry) { return entry.kind == EntryKind::array; }, note);
  EXPECT_EQ(renamed, Texts{""});
  ASSERT_EQ(kept.entries.size(), 2U);
  for (const TreeEntry& entry : kept.entries) EXPECT_FALSE(entry.keys()[0].is_index);
  EXPECT_EQ(differences(tree_with(tree.entries[1]), tree_with(kept.entries[0])),
            Texts{": a list in A, a dict in B"});
}

}  // namespace
}  // namespace hfshard
