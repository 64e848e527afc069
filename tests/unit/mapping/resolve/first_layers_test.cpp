#include "mapping/resolve/first_layers.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Names = std::vector<std::string>;

Json parsed_config(std::string_view text) { return parse_json(text, "config.json"); }

std::string cut(std::string_view config, std::uint64_t whole, std::uint64_t layers,
                const Names& places = {"."}) {
  MappingTable table;
  table.config_at = places;
  return dump_json(config_of_first_layers(table, parsed_config(config), whole, layers));
}

TEST(FirstLayers, NumbersOfLayersAreCut) {
  EXPECT_EQ(cut(R"({"num_hidden_layers": 9, "first_k_dense_replace": 3, "vocab_size": 9})", 9, 2),
            R"({"first_k_dense_replace":2,"num_hidden_layers":2,"vocab_size":9})");
  EXPECT_EQ(cut(R"({"num_hidden_layers": 9, "first_k_dense_replace": 3})", 9, 5),
            R"({"first_k_dense_replace":3,"num_hidden_layers":5})");
  EXPECT_EQ(cut(R"({"max_window_layers": 9, "num_hash_layers": 3, "num_hidden_layers": 9})", 9, 1),
            R"({"max_window_layers":1,"num_hash_layers":1,"num_hidden_layers":1})");
}

// Cuts nine layers, of which the last ones share keys and values.
std::string cut_nine(int shared, std::uint64_t layers) {
  return cut(R"({"num_hidden_layers": 9, "num_kv_shared_layers": )" + std::to_string(shared) + "}",
             9, layers);
}

// The last three of nine are 6, 7 and 8.
TEST(FirstLayers, HowManyOfTheLastOnesAreSomethingIsCountedAnew) {
  EXPECT_EQ(cut_nine(3, 6), R"({"num_hidden_layers":6,"num_kv_shared_layers":0})");
  EXPECT_EQ(cut_nine(3, 7), R"({"num_hidden_layers":7,"num_kv_shared_layers":1})");
  EXPECT_EQ(cut_nine(3, 1), R"({"num_hidden_layers":1,"num_kv_shared_layers":0})");
}

TEST(FirstLayers, MoreLastLayersThanLayersAreAllLayers) {
  EXPECT_EQ(cut_nine(12, 9), R"({"num_hidden_layers":9,"num_kv_shared_layers":9})");
  EXPECT_EQ(cut_nine(12, 6), R"({"num_hidden_layers":6,"num_kv_shared_layers":6})");
  EXPECT_EQ(cut_nine(12, 1), R"({"num_hidden_layers":1,"num_kv_shared_layers":1})");
}

TEST(FirstLayers, ListsWithAnEntryForEachLayerAreCut) {
  EXPECT_EQ(cut(R"({"layer_types": ["a", "b", "c"], "num_hidden_layers": 3})", 3, 2),
            R"({"layer_types":["a","b"],"num_hidden_layers":2})");
  EXPECT_EQ(cut(R"({"layer_types": ["a"], "num_hidden_layers": 3})", 3, 2),
            R"({"layer_types":["a"],"num_hidden_layers":2})");
  EXPECT_EQ(
      cut(R"({"num_hidden_layers": 3, "per_layer_config": {"01": 1, "02": 2, "x": 3}})", 3, 2),
      R"({"num_hidden_layers":2,"per_layer_config":{"01":1,"x":3}})");
  EXPECT_EQ(cut(R"({"layer_types": null, "mlp_only_layers": [0, 4, 2, 3], "num_hidden_layers": 5})",
                5, 3),
            R"({"layer_types":null,"mlp_only_layers":[0,2],"num_hidden_layers":3})");
}

TEST(FirstLayers, EachListOfLayersIsCut) {
  for (const std::string key :
       {"layer_types", "mlp_layer_types", "no_rope_layers", "compress_ratios"})
    EXPECT_EQ(cut("{\"" + key + "\": [1, 2, 3], \"num_hidden_layers\": 3}", 3, 1),
              "{\"" + key + "\":[1],\"num_hidden_layers\":1}");
  for (const std::string key : {"mlp_only_layers", "moe_layers"})
    EXPECT_EQ(cut("{\"" + key + "\": [0, 1, 2], \"num_hidden_layers\": 3}", 3, 2),
              "{\"" + key + "\":[0,1],\"num_hidden_layers\":2}");
}

TEST(FirstLayers, ValuesOfOtherKindsStay) {
  for (const char* config : {R"({"mlp_only_layers":"all","num_hidden_layers":2})",
                             R"({"first_k_dense_replace":null,"num_hidden_layers":2})",
                             R"({"first_k_dense_replace":"all","num_hidden_layers":2})",
                             R"({"num_hidden_layers":2,"num_kv_shared_layers":null})",
                             R"({"num_hidden_layers":2,"num_kv_shared_layers":"all"})"}) {
    EXPECT_EQ(cut(config, 5, 2), config);
  }
}

TEST(FirstLayers, AConfigWithoutTheDecoderStays) {
  EXPECT_EQ(cut(R"({"num_hidden_layers": 9})", 9, 2, {"text_config"}),
            R"({"num_hidden_layers":9})");
}

TEST(FirstLayers, OnlyTheDecoderIsCut) {
  const char* config = R"({"text_config": {"num_hidden_layers": 4},
                           "vision_config": {"layer_types": ["a", "b"], "num_hidden_layers": 4}})";
  EXPECT_EQ(cut(config, 4, 1, {"text_config", "."}),
            R"({"text_config":{"num_hidden_layers":1},)"
            R"("vision_config":{"layer_types":["a","b"],"num_hidden_layers":4}})");
}

TEST(FirstLayers, EachPlaceForSizesIsCutAndGetsNoNumberThatAnotherHas) {
  const Names places{"text_config", "."};
  EXPECT_EQ(cut(R"({"layer_types": [1, 2, 3, 4], "num_hidden_layers": 4,
                    "text_config": {"moe_layers": [0, 3], "num_hidden_layers": 4}})",
                4, 1, places),
            R"({"layer_types":[1],"num_hidden_layers":1,)"
            R"("text_config":{"moe_layers":[0],"num_hidden_layers":1}})");
  EXPECT_EQ(cut(R"({"num_hidden_layers": 4, "text_config": {"hidden_size": 7}})", 4, 1, places),
            R"({"num_hidden_layers":1,"text_config":{"hidden_size":7}})");
  EXPECT_EQ(cut(R"({"num_hidden_layers": 4, "text_config": 3})", 4, 1, places),
            R"({"num_hidden_layers":1,"text_config":3})");
  EXPECT_EQ(cut(R"({"audio": {"depth": 1}, "text": {"num_hidden_layers": 4}, "video": {}})", 4, 1,
                {"audio", "text", "video"}),
            R"({"audio":{"depth":1},"text":{"num_hidden_layers":1},"video":{}})")
      << "neither the first nor the last one has it";
}

TEST(FirstLayers, OnlyNumbersAreKeysOfLayers) {
  EXPECT_EQ(
      cut(R"({"num_hidden_layers": 3, "per_layer_config": {"-2": 1, "2": 2, "2x": 3}})", 3, 1),
      R"({"num_hidden_layers":1,"per_layer_config":{"-2":1,"2x":3}})");
  EXPECT_EQ(cut(R"({"moe_layers": ["all", 2, 0], "num_hidden_layers": 3})", 3, 1),
            R"({"moe_layers":["all",0],"num_hidden_layers":1})");
}

TEST(FirstLayers, ANumberThatIsADefaultIsWrittenWhereItIsLookedUpFirst) {
  EXPECT_EQ(cut(R"({"text_config": {"hidden_size": 7}})", 26, 6, {"text_config", "."}),
            R"({"text_config":{"hidden_size":7,"num_hidden_layers":6}})");
  EXPECT_EQ(cut(R"({"num_hidden_layers": null})", 26, 6, {"text_config", "."}),
            R"({"num_hidden_layers":6})");
}

struct Cut {
  explicit Cut(std::optional<std::uint64_t> layers,
               const std::string& family = std::string(kTinyFamily), bool stacked = true)
      : table(load_table(tiny_file(family))),
        config(parsed_config(R"({"hidden_size": 7, "num_hidden_layers": 12, "num_experts": 1})")) {
    options.num_layers = layers;
    options.stacked = stacked;
  }

  ModelRules rules() const { return {table, table.schemes[0], config, options, {}}; }

  MappingTable table;
  Json config;
  MappingOptions options;
};

TEST(FirstLayers, TheirRulesAreTheOthersAreLeftOut) {
  const Cut cut(10);
  ModelRules rules = cut.rules();
  EXPECT_TRUE(rules.is_cut());
  EXPECT_EQ(rules.bindings().extent("L"), 10U);
  EXPECT_EQ(rules.uncut().extent("L"), 12U);
  EXPECT_EQ(rules.left_out(), (Names{"layers.10.", "layers.11."}));
  EXPECT_EQ(rules.why_left_out(), "layers 10 to 11 are left out (--num-layers 10)");
  std::size_t sources = 0;
  for (const ResolvedRule& rule : rules.resolved().rules) sources += rule.sources.size();
  EXPECT_EQ(sources, 1U + 2U * 10U);
  EXPECT_EQ(rules.config().at("num_hidden_layers").as_int(), 10);
}

TEST(FirstLayers, TheWholeModelIsNotCut) {
  for (const std::optional<std::uint64_t> layers : {std::optional<std::uint64_t>{}, {12}}) {
    const Cut cut(layers);
    ModelRules rules = cut.rules();
    EXPECT_FALSE(rules.is_cut());
    EXPECT_EQ(rules.left_out(), Names{});
    EXPECT_EQ(rules.bindings().extent("L"), 12U);
    EXPECT_EQ(rules.config(), cut.config);
  }
}

TEST(FirstLayers, UncutIsWhatTheFileSays) {
  const std::string family =
      tiny_family_with("\"cyc\": 2", R"("cyc": 2, "M": "uncut.num_hidden_layers")");
  EXPECT_EQ(Cut(5, family).rules().bindings().extent("M"), 12U);
  EXPECT_EQ(Cut({}, family).rules().bindings().extent("M"), 12U);
}

Error refusal(std::uint64_t layers, const std::string& family, bool stacked = true) {
  return catch_error([&] { Cut(layers, family, stacked).rules(); });
}

TEST(FirstLayers, ANumberThatThereIsNotIsRefused) {
  const std::string family(kTinyFamily);
  EXPECT_EQ(refusal(13, family).sentence(),
            "--num-layers 13 is more than the 12 layers that the model has");
  EXPECT_EQ(refusal(0, family).sentence(), "pass --num-layers 1 or more");
}

TEST(FirstLayers, ANumberThatCutsABlockIsRefusedWithItsNeighbors) {
  const std::string family =
      tiny_family_with(R"("stacked": ["decoder.layers.", "l"])",
                       R"("stacked": ["decoder.layers.", "L % 4 == 0 ? l : l - L"])");
  const Error error = refusal(6, family);
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(),
            "--num-layers 6 doesn't fit the pattern of the 12 layers: the layers under "
            "\"decoder.layers.\" (6) don't fill their stack from 0 without gaps");
  EXPECT_EQ(error.hint_text(), "pass --num-layers 4 or 8, or 6 with --layers separate");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer");
  EXPECT_EQ(refusal(1, family).hint_text(), "pass --num-layers 4, or 1 with --layers separate");
  EXPECT_EQ(refusal(9, family).hint_text(),
            "pass --num-layers 8 or 12, or 9 with --layers separate");
  EXPECT_NO_THROW(Cut(6, family, /*stacked=*/false).rules());
}

TEST(FirstLayers, WhatStandsAgainstTheWholeModelIsToldAsWithoutThem) {
  const std::string family = tiny_family_with(R"("stacked": ["decoder.layers.", "l"],)", "");
  const Error error = refusal(6, family);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), R"(layers "layer" of family "tiny" don't have a stacked form)");
}

TEST(FirstLayers, AFamilyCountsItsLayersByTheDimAndTheKey) {
  std::string family = tiny_family_with(R"("L": "num_hidden_layers")", R"("L": "depth")");
  Cut other(2, family);
  other.config["depth"] = 12;
  EXPECT_EQ(catch_error([&] { other.rules(); }).sentence(),
            R"(num_hidden_layers doesn't count the layers of family "tiny")");
  family = tiny_family_with(R"("L": "num_hidden_layers")", R"("N": "num_hidden_layers")");
  family.replace(family.find(R"("for": {"l": "L"})"), 17, R"("for": {"l": "N"})");
  EXPECT_EQ(refusal(2, family).sentence(),
            R"(--num-layers can't count the layers of family "tiny")");
}

TEST(FirstLayers, OneLayerThatIsLeftOutIsNamedAlone) {
  const Cut cut(11);
  ModelRules rules = cut.rules();
  EXPECT_EQ(rules.left_out(), Names{"layers.11."});
  EXPECT_EQ(rules.why_left_out(), "layer 11 is left out (--num-layers 11)");
}

// Users don't know the expressions of a table.
TEST(FirstLayers, AnExpressionThatFailsIsNoReason) {
  const std::string family =
      tiny_family_with(R"("stacked": ["decoder.layers.", "l"])",
                       R"("stacked": ["decoder.layers.", "L / 4 >= 0 ? l : 0"])");
  const Error error = refusal(6, family);
  EXPECT_EQ(error.sentence(), "--num-layers 6 doesn't fit the pattern of the 12 layers");
  EXPECT_EQ(error.hint_text(), "pass --num-layers 4 or 8, or 6 with --layers separate");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/layer/stacked/1");
}

TEST(FirstLayers, SeparateLayersAreNoAdviceForSeparateLayers) {
  const std::string family = tiny_family_with(
      R"("use": ["mlp"])",
      R"("require": [["L % 4 == 0", "four layers belong together"]], "use": ["mlp"])");
  const Error error = refusal(6, family, /*stacked=*/false);
  EXPECT_EQ(error.sentence(),
            "--num-layers 6 doesn't fit the pattern of the 12 layers: four layers belong together");
  EXPECT_EQ(error.hint_text(), "pass --num-layers 4 or 8");
  EXPECT_EQ(refusal(6, family).hint_text(), "pass --num-layers 4 or 8");
}

}  // namespace
}  // namespace hfshard
