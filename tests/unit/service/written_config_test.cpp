#include "service/written_config.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/catch_error.h"
#include "unit/run/run_support.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

Leaf leaf_with(const std::string& name, DType dtype, const Shape& shape) {
  Leaf leaf;
  leaf.name = name;
  leaf.dtype = dtype;
  leaf.shape = shape;
  return leaf;
}

// One large tensor counts more than many small ones.
TEST(WriteDtype, ItIsTheOneOfMostElements) {
  Catalog source;
  source.config_text = R"({"dtype": "float16", "vision_config": {"dtype": "float16"}})";
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::bf16, {3}),       leaf_with("b", DType::bf16, {3}),
                  leaf_with("c", DType::f32, {5, 4}),     leaf_with("visual.a", DType::f32, {2}),
                  leaf_with("visual.b", DType::f32, {2}), leaf_with("visual.c", DType::bf16, {5})};
  write_dtype(source, {}, model);
  EXPECT_EQ(parse_json(model.config_text, "config.json"),
            parse_json(R"({"dtype": "float32", "vision_config": {"dtype": "bfloat16"}})", ""));
}

// transformers reads the flag of text_config, whose default can be true.
TEST(WriteUntied, AConfigOfTextIsUntiedWithoutAFlagToo) {
  Catalog source;
  source.config_text = R"({"text_config": {"a": 1}, "vision_config": {"b": 2}})";
  MappingOptions mapping;
  mapping.untie = true;
  CompiledModel model;
  write_untied(mapping, source, model);
  const Json written = parse_json(model.config_text, "config.json");
  EXPECT_EQ(written.at("text_config").at("tie_word_embeddings"), Json(false));
  EXPECT_EQ(written.at("vision_config"), parse_json(R"({"b": 2})", ""));
}

// Loaders of a composed model read the flag next to its language model's sizes.
TEST(WriteUntied, EachPartThatStatesTheFlagIsUntied) {
  MappingOptions mapping;
  mapping.untie = true;
  const std::string written = config_as_asked(
      R"({"llm_config": {"tie_word_embeddings": true, "inner": {"tie_word_embeddings": true}},
          "other": {"inner": {"a": 1}}})",
      "config.json", mapping);
  EXPECT_EQ(parse_json(written, "config.json"),
            parse_json(R"({"tie_word_embeddings": false, "other": {"inner": {"a": 1}},
                           "llm_config": {"tie_word_embeddings": false,
                                          "inner": {"tie_word_embeddings": false}}})",
                       ""));
}

// Returns the config and the notes after write_dtype for a model of one bf16 tensor.
std::pair<std::string, std::vector<std::string>> with_dtype(const std::string& config,
                                                            std::optional<DType> asked) {
  Catalog source;
  source.config_text = config;
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::bf16, {3})};
  write_dtype(source, asked, model);
  return {model.config_text, model.notes};
}

TEST(WriteDtype, WhatIsNotATorchDtypeStays) {
  for (const char* config :
       {R"({"dtype": "auto"})", R"({"dtype": null})", R"({"dtype": "bfloat16"})", "[]"}) {
    EXPECT_EQ(with_dtype(config, std::nullopt).first, "") << config;
    EXPECT_TRUE(with_dtype(config, std::nullopt).second.empty()) << config;
  }
}

// It is the dtype of the codes' own computations.
TEST(WriteDtype, ADtypeOfTheQuantizationStays) {
  EXPECT_EQ(parse_json(with_dtype(R"({"dtype": "float32", "text_config": {"dtype": "float32"},
                                      "quantization_config": {"dtype": "float16"}})",
                                  std::nullopt)
                           .first,
                       "config.json"),
            parse_json(R"({"dtype": "bfloat16", "text_config": {"dtype": "bfloat16"},
                           "quantization_config": {"dtype": "float16"}})",
                       ""));
}

TEST(WriteDtype, APartIsNotedIfItsChangeIsAnotherOne) {
  EXPECT_EQ(with_dtype(R"({"dtype": "float32", "text_config": {"torch_dtype": "float32"},
                           "vision_config": {"inner": {"dtype": "float16"}}})",
                       std::nullopt)
                .second,
            (std::vector<std::string>{
                "config.json now says bfloat16, the dtype of the output, instead of float32",
                "vision_config.inner of config.json now says bfloat16, the dtype of the output, "
                "instead of float16"}));
}

TEST(WriteDtype, OnlyADtypeThatWasNotAskedForIsNoted) {
  const std::string config = R"({"dtype": "float32"})";
  EXPECT_TRUE(with_dtype(config, DType::bf16).second.empty());
  const std::vector<std::string> note{
      "config.json now says bfloat16, the dtype of the output, instead of float32"};
  EXPECT_EQ(with_dtype(config, DType::f16).second, note);
  EXPECT_EQ(with_dtype(config, std::nullopt).second, note);
}

TEST(WrittenConfig, AConfigThatIsntAnObjectStays) {
  MappingOptions mapping;
  mapping.untie = true;
  EXPECT_EQ(config_as_asked("[]", "config.json", mapping), "[]");
  CompiledModel model;
  note_lacking_parts("[]", model);
  EXPECT_TRUE(model.notes.empty());
}

TEST(WrittenConfig, OnlyADescribedPartWithoutTensorsIsNoted) {
  const auto notes_of = [](const std::string& config) {
    CompiledModel model;
    model.leaves = {leaf_with("model.visual.a", DType::bf16, {3}),
                    leaf_with("norm.weight", DType::bf16, {3})};
    note_lacking_parts(config, model);
    return model.notes;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes_of(R"({"text_config": {"a": 1}, "vision_config": {"a": 1}})"), Notes());
  EXPECT_EQ(notes_of(R"({"audio_config": null, "vision_start_token_id": 5})"), Notes());
  EXPECT_EQ(notes_of(R"({"audio_config": {"a": 1}})"),
            Notes{"config.json describes a part that the checkpoint doesn't have: audio_config"});
}

// config.json states only dtypes of real numbers.
TEST(WriteDtype, AModelOfIntegersLeavesTheConfigAsItIs) {
  Catalog source;
  source.config_text = R"({"dtype": "float32"})";
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::i8, {3}), leaf_with("b", DType::bf16, {2})};
  write_dtype(source, std::nullopt, model);
  EXPECT_EQ(model.config_text, "");
  EXPECT_TRUE(model.notes.empty());
}

// A remaining quantization_config would send loaders to codes that aren't there.
TEST(WriteWithoutLeftover, AConfigWithoutCodesStays) {
  Catalog tree;
  tree.config_text = R"({"a": 1})";
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::bf16, {3})};
  write_without_leftover(tree, model);
  EXPECT_EQ(model.config_text, "");
}

TEST(WriteWithoutLeftover, AConfigOfCodesThatAreGoneIsWrittenWithoutThem) {
  Catalog tree;
  tree.config_text = R"({"a": 1, "quantization_config": {"quant_method": "fp8"}})";
  CompiledModel model;
  model.leaves = {leaf_with("a", DType::bf16, {3})};
  write_without_leftover(tree, model);
  EXPECT_EQ(parse_json(model.config_text, ""), parse_json(R"({"a": 1})", ""));
}

// A loader needs it for the tensors that are still codes.
TEST(WriteWithoutCodes, AConfigOfCodesStaysWhileOneTensorHasThem) {
  const TempDir dir;
  const std::string source = copy_fixture("qwen3-moe-fp8", dir / "source");
  QuietReporter quiet;
  PlanOptions options;
  options.target = "safetensors";
  options.mapping.scheme = "hf";
  const auto states_codes = [&](const std::string& out) {
    hfshard::convert(source, options, to_output(out), quiet);
    const std::string config = out + "/config.json";
    return parse_json(read_file(config), config).find("quantization_config") != nullptr;
  };
  options.mapping.casts = {{"model.layers.0.self_attn.q_proj.weight", DType::f32}};
  EXPECT_TRUE(states_codes(dir / "one"));
  options.mapping.dtype = DType::bf16;
  EXPECT_FALSE(states_codes(dir / "all"));
}

TEST(WriteDtype, EachPartHasTheDtypeOfItsOwnTensorsAndOneWithoutTensorsThatOfTheWhole) {
  Catalog source;
  source.config_text =
      R"({"torch_dtype": "float16", "audio_config": {"dtype": "float16"},
          "text_config": {"dtype": "float16", "vision_config": {"dtype": "float16"}},
          "thinker_config": {"dtype": "float16", "vision_tower": {"inner": {"dtype": "float16"}}}})";
  CompiledModel model;
  model.leaves = {leaf_with("model.patch_embed.a", DType::f64, {9}),
                  leaf_with("model.vision_tower.b", DType::bf16, {2}),
                  leaf_with("w", DType::f32, {4}), leaf_with("x", DType::bf16, {3}),
                  leaf_with("y", DType::bf16, {3})};
  write_dtype(source, {}, model);
  EXPECT_EQ(parse_json(model.config_text, "config.json"),
            parse_json(
                R"({"torch_dtype": "float64", "audio_config": {"dtype": "float64"},
              "text_config": {"dtype": "bfloat16", "vision_config": {"dtype": "float64"}},
              "thinker_config": {"dtype": "float64", "vision_tower": {"inner": {"dtype": "float64"}}}})",
                ""));
  EXPECT_EQ(model.notes,
            (std::vector<std::string>{
                "config.json now says float64, the dtype of the output, instead of float16",
                "text_config of config.json now says bfloat16, the dtype of the output, instead of "
                "float16"}));
}

// An earlier step can have changed the config.
TEST(WrittenConfig, TheModelsOwnConfigIsChangedBeforeTheSources) {
  Catalog source;
  source.config_text = R"({"a": 1, "dtype": "float32"})";
  CompiledModel model;
  model.config_text = R"({"a": 2, "dtype": "float32"})";
  model.leaves = {leaf_with("a", DType::bf16, {3})};
  write_dtype(source, {}, model);
  EXPECT_EQ(parse_json(model.config_text, ""), parse_json(R"({"a": 2, "dtype": "bfloat16"})", ""));
  MappingOptions mapping;
  write_untied(mapping, source, model);
  EXPECT_EQ(parse_json(model.config_text, ""), parse_json(R"({"a": 2, "dtype": "bfloat16"})", ""));
  mapping.untie = true;
  write_untied(mapping, source, model);
  EXPECT_EQ(parse_json(model.config_text, ""),
            parse_json(R"({"a": 2, "dtype": "bfloat16", "tie_word_embeddings": false})", ""));
}

TEST(WriteUntied, WithoutAConfigTheFlagIsAnError) {
  MappingOptions mapping;
  EXPECT_EQ(config_as_asked("", "tree", mapping), "");
  EXPECT_EQ(config_as_asked(R"({"tie_word_embeddings": true})", "tree", mapping),
            R"({"tie_word_embeddings": true})");
  mapping.untie = true;
  const Error error = catch_error([&] { config_as_asked("", "tree", mapping); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--untie changes config.json, and the source doesn't have one");
  EXPECT_EQ(error.file(), "tree");
  EXPECT_EQ(error.hint_text(), "pass --config DIR with the model's config.json");
}

TEST(CountNoMtp, LayersThatTheOutputLacksAreCountedAsNone) {
  Catalog tree;
  const auto counted = [&](const std::string& config, const std::vector<std::string>& names) {
    tree.config_text = config;
    CompiledModel model;
    for (const std::string& name : names) model.leaves.push_back(leaf_with(name, DType::bf16, {1}));
    count_no_mtp(tree, model);
    EXPECT_EQ(model.config_text.empty(), model.notes.empty());
    return model.notes.empty() ? std::string() : model.notes.front();
  };
  const std::string config = R"({"num_hidden_layers": 2, "num_nextn_predict_layers": 1})";
  EXPECT_EQ(counted(config, {"model.layers.0.a", "model.layers.1.a"}),
            "the source has no multi-token prediction layers, so num_nextn_predict_layers in "
            "config.json becomes 0");
  EXPECT_EQ(counted(config, {"model.layers.1.a", "mtp.layers.0.a"}), "");
  EXPECT_EQ(counted(R"({"num_hidden_layers": 2})", {"model.layers.0.a"}), "");
  EXPECT_EQ(counted("", {"model.layers.0.a"}), "");
}

}  // namespace
}  // namespace hfshard
