#include "plan/compile/missing_layers.h"

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/service/names_of_modules.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

TEST(MissingLayers, NamesTheFirstLayerThatTheCheckpointHasNothingOf) {
  const Names wanted{"embed.weight",      "layers.0.a.weight", "layers.0.b.weight",
                     "layers.1.a.weight", "layers.1.b.weight", "layers.2.a.weight"};
  EXPECT_EQ(missing_layers(wanted, {}), "");
  EXPECT_EQ(missing_layers(wanted, {"embed.weight", "layers.1.a.weight"}), "");
  EXPECT_EQ(missing_layers(wanted, {"layers.1.a.weight", "layers.1.b.weight"}),
            "config.json asks for 3 layers, and the checkpoint has nothing of layer 1");
  EXPECT_EQ(missing_layers(wanted, {"layers.1.a.weight", "layers.1.b.weight", "layers.2.a.weight"}),
            "config.json asks for 3 layers, and the checkpoint has nothing of 2 of them, first "
            "layer 1");
}

TEST(MissingLayers, LayersAreCountedByNumber) {
  Names wanted{"embed.weight"};
  for (int layer = 0; layer < 12; ++layer) wanted.push_back(fmt::format("a.{}.b.7.c", layer));
  EXPECT_EQ(missing_layers(wanted, {"a.10.b.7.c", "a.11.b.7.c"}),
            "config.json asks for 12 layers, and the checkpoint has nothing of 2 of them, first "
            "layer 10");
  EXPECT_EQ(missing_layers(wanted, {"a.11.b.7.c", "a.9.b.7.c"}),
            "config.json asks for 12 layers, and the checkpoint has nothing of 2 of them, first "
            "layer 9");
}

TEST(MissingLayers, OnlyModulesWithTheSameNameAreCounted) {
  EXPECT_EQ(missing_layers({"layers.0.a", "layers.1.a", "visual.blocks.0.a", "visual.blocks.5.a"},
                           {"layers.1.a"}),
            "config.json asks for 2 layers, and the checkpoint has nothing of layer 1");
}

TEST(MissingLayers, ACheckpointWithoutAnyLayerHasOtherNames) {
  EXPECT_EQ(
      missing_layers({"embed.weight", "layers.0.a", "layers.1.a"}, {"layers.0.a", "layers.1.a"}),
      "");
}

TEST(MissingLayers, NamesWithoutLayersHaveNone) {
  EXPECT_EQ(missing_layers({"a", "b.weight"}, {"a"}), "");
  EXPECT_EQ(missing_layers({"layers.99999999999999999999.a"}, {"layers.99999999999999999999.a"}),
            "");
}

TEST(Complete, AnArrayThatTheModelLacksIsNamedAndCanBeLeftOut) {
  Catalog tree = files_of("qwen3");
  const std::string config = std::exchange(tree.config_text, {});
  EXPECT_EQ(check_complete_tree(tree, config, {}).unchecked, "");
  for (const char* name : {"zebra.a", "zebra.b"}) {
    tree.tensors.push_back(tree.tensors.back());
    tree.tensors.back().name = name;
  }
  MappingOptions options;
  const Error error = catch_error([&] { check_complete_tree(tree, config, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "zebra.a");
  options.exclude = {"zebra.*"};
  EXPECT_EQ(check_complete_tree(tree, config, options).left_out_others,
            (Names{"zebra.a", "zebra.b"}));
}

}  // namespace
}  // namespace hfshard
