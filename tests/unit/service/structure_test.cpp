#include "service/structure.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"

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

}  // namespace
}  // namespace hfshard
