#include "service/structure.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hfshard
