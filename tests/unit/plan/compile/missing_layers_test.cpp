#include "plan/compile/missing_layers.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hfshard
