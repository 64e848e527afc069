#include "service/tree_source.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "support/temp_dir.h"
#include "unit/service/named_checkpoint.h"

namespace hfshard {
namespace {

using Texts = std::vector<std::string>;

TEST(GlobsBelow, AKeyIsPutBeforeEachGlob) {
  EXPECT_EQ(globs_below("a.b", {"*x", "y"}), (Texts{"a.b.*x", "a.b.y"}));
  EXPECT_EQ(globs_below("", {"*x", "y"}), (Texts{"*x", "y"}));
}

// Arrays, objects, an array that can't be read, and strings below the keys a, b and bb.
Catalog mixed_tree() {
  Catalog out = catalog_named({"a.x", "b.x", "b.y.z", "bb.x"});
  out.unreadable = {{"a.o", "odd"}, {"b.o", "even"}};
  for (const char* name : {"a.e", "b.e", "bb.e"}) out.objects.emplace_back().name = name;
  auto structure = std::make_shared<TreeStructure>();
  for (const auto& [first, second] : {std::pair{"a", "t"}, {"b", "t"}, {"b", "x"}}) {
    TreeEntry& entry = structure->entries.emplace_back();
    if (*second == 't') entry.kind = TreeEntry::Kind::text;
    entry.add_key(first, false);
    entry.add_key(second, false);
  }
  out.structure = structure;
  out.location = "before";
  out.wording.array = "leaf";
  return out;
}

TEST(TreeSourceBelow, AllThatIsBelowTheKeyGetsShorterNames) {
  const TempDir dir;
  const TreeSource tree(checkpoint_of(mixed_tree()), StorePath(dir.path()), "b");
  const Catalog& found = tree.catalog();
  EXPECT_EQ(names_of_arrays(found), (Texts{"x", "y.z"}));
  ASSERT_EQ(found.unreadable.size(), 1U);
  EXPECT_EQ(found.unreadable[0].name, "o");
  EXPECT_EQ(found.unreadable[0].why, "even");
  ASSERT_EQ(found.objects.size(), 1U);
  EXPECT_EQ(found.objects[0].name, "e");
  Texts entries;
  for (const TreeEntry& entry : found.structure->entries) entries.push_back(entry.path);
  EXPECT_EQ(entries, (Texts{"t", "x"}));
  EXPECT_EQ(found.location, dir.path());
  ASSERT_EQ(found.files.size(), 1U);
  EXPECT_EQ(found.files[0].name, kWholeTree);
  const TreeSource whole(checkpoint_of(mixed_tree()), StorePath(dir.path()), "");
  EXPECT_EQ(whole.catalog().tensors.size(), 4U);
  EXPECT_EQ(whole.catalog().objects.size(), 3U);
}

TEST(TreeSourceBelow, AKeyWithoutArraysIsAnError) {
  const TempDir dir;
  for (const char* root : {"c", "b.x", "b.", "x"}) {
    const Error error =
        catch_error([&] { TreeSource(checkpoint_of(mixed_tree()), StorePath(dir.path()), root); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.sentence(), "the checkpoint has no leaf below \"" + std::string(root) + "\"");
    EXPECT_EQ(error.file(), "before");
    EXPECT_EQ(error.hint_text(),
              "pass --root with a key of the tree, dotted, as hfshard inspect prints names");
  }
}

TEST(TreeSource, TheModelsFilesComeFromTheDirectoryThatIsNamed) {
  const TempDir dir;
  write_text(dir / "model/config.json", R"({"b": 2})");
  write_text(dir / "model/tokenizer.json", "{}");
  write_text(dir / "tree/x", "");
  Catalog catalog = catalog_named({"w"});
  catalog.side_files = {"config.json", "vocab.json"};
  TreeSource tree(checkpoint_of(catalog), StorePath(dir / "tree"), "");
  EXPECT_EQ(tree.catalog().directory.name(), dir / "tree");
  TreeOptions asked;
  asked.config_text = R"({"a": 1})";
  asked.config_name = "recorded/config.json";  // has no file
  tree.carry(asked);
  EXPECT_EQ(tree.catalog().config_text, R"({"a": 1})");
  EXPECT_EQ(tree.catalog().side_files, Texts{"vocab.json"});
  EXPECT_EQ(tree.catalog().directory.name(), dir / "tree");
  asked.config_name = dir / "model/config.json";
  tree.carry(asked);
  EXPECT_EQ(tree.catalog().side_files, (Texts{"config.json", "tokenizer.json"}));
  EXPECT_EQ(tree.catalog().directory.name(), dir / "model");
  write_text(dir / "other/merges.txt", "");
  tree.carry(StorePath(dir / "other"), "{}");
  EXPECT_EQ(tree.catalog().config_text, "{}");
  EXPECT_EQ(tree.catalog().side_files, Texts{"merges.txt"});
  EXPECT_EQ(tree.catalog().directory.name(), dir / "other");
  EXPECT_EQ(tree.catalog().root, "");
  tree.set_root("run");
  EXPECT_EQ(tree.catalog().root, "run");
}

// A run checks it before it publishes.
TEST(TreeSource, AnyFileOfTheTreeBelongsToItsIdentity) {
  const TempDir dir;
  write_text(dir / "tree/a", "1");
  write_text(dir / "tree/below/b", "2");
  const auto file = [&] {
    return TreeSource(checkpoint_of(catalog_named({"w"})), StorePath(dir / "tree"), "")
        .catalog()
        .files.front();
  };
  const CatalogFile before = file();
  EXPECT_EQ(before.size_bytes, 2U);
  EXPECT_EQ(file().version, before.version);
  EXPECT_EQ(file().header_sha256, before.header_sha256);
  write_text(dir / "tree/below/c", "345");
  EXPECT_EQ(file().size_bytes, 5U);
  EXPECT_NE(file().version, before.version);
}

}  // namespace
}  // namespace hfshard
