// The sentences and hints of rules that can't be applied.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/tiny_rules.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string decoded_blocks() {
  return tiny_family_with("\"dims\"", "\"decode\": [" + std::string(kBlocks) + "], \"dims\"");
}

Error rule_refusal(const std::string& text, const FakeCatalog& catalog,
                   const MappingOptions& options = {}) {
  return catch_error([&] { compile_text(text, catalog, options); });
}

TEST(RuleErrors, CodesThatALoaderCannotHoldNameTheLoader) {
  MappingOptions options;
  options.keep_dtype = true;
  const Error error = rule_refusal(decoded_blocks(), coded_catalog(), options);
  EXPECT_TRUE(
      error.sentence().starts_with("the tensor is quantized (F8_E4M3 with scales), and MaxText "))
      << error.sentence();
  EXPECT_TRUE(error.sentence().ends_with(" has no place for its scales")) << error.sentence();
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/parts/mlp/0");
  EXPECT_EQ(error.hint_text(), "pass --dtype bf16 or --dtype f32 to decode it");
  options.scheme = "hf";
  EXPECT_EQ(rule_refusal(decoded_blocks(), coded_catalog(), options).sentence(),
            "the tensor is quantized (F8_E4M3 with scales), and this scheme has no place for its "
            "scales");
}

TEST(RuleErrors, IntegersThatHaveToBeComputedAreRefused) {
  const std::string text =
      with_norm_rule(R"(["norm.weight [D]", "norm.scale [D]", {"dtype": "f32"}])");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").dtype = DType::u8;
  const Error error = rule_refusal(text, catalog);
  EXPECT_EQ(error.sentence(), "hfshard can't compute values of dtype u8 as f32");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/global/0");
  EXPECT_FALSE(error.hint_text().empty());
}

TEST(RuleErrors, ANarrowFloatThatIsNamedLikeScalesIsTakenForThem) {
  MappingOptions options;
  options.dtype = DType::bf16;
  const auto refusal = [&](const std::string& name) {
    std::string text = with_norm_rule("[\"" + name + " [D]\", \"norm.scale [D]\"]");
    FakeCatalog catalog = tiny_catalog();
    catalog.remove("norm.weight").add(name, {7}, DType::f8_e4m3);
    return rule_refusal(text, catalog, options);
  };
  const Error scale = refusal("norm.weight_scale");
  EXPECT_EQ(scale.code(), ErrorCode::unsupported);
  EXPECT_EQ(scale.tensor(), "norm.weight_scale");
  EXPECT_EQ(scale.hint_text(),
            "it looks like scales for codes of a form that hfshard doesn't know; pass --scheme hf "
            "to keep both");
  const Error codes = refusal("norm.weight");
  EXPECT_EQ(codes.sentence(),
            "the tensor is stored as F8_E4M3, and hfshard doesn't know its scales");
  EXPECT_EQ(codes.hint_text(),
            "scales must be next to the codes, such as \"norm.weight_scale\"; pass --scheme hf to "
            "keep the codes");
  EXPECT_EQ(codes.rule(), "mappings/tiny.json#/schemes/maxtext/global/0");
}

TEST(RuleErrors, ScalesThatDoNotFitAreNamedWithTheirCodes) {
  FakeCatalog catalog = coded_catalog();
  catalog.get("layers.1.up.weight_s").shape = {3, 2};
  const Error shape = rule_refusal(decoded_blocks(), catalog);
  EXPECT_EQ(shape.sentence(), "expected 6 scales for \"layers.1.up.weight\" (5x7), found 3x2");
  EXPECT_EQ(shape.tensor(), "layers.1.up.weight_s");
  EXPECT_EQ(shape.file(), "model.safetensors");
  EXPECT_EQ(shape.rule(), "mappings/tiny.json#/decode/0");
  catalog = coded_catalog();
  catalog.get("layers.0.up.weight_s").dtype = DType::i32;
  const Error dtype = rule_refusal(decoded_blocks(), catalog);
  EXPECT_EQ(dtype.sentence(), "hfshard can't use scales of dtype I32");
  EXPECT_EQ(dtype.tensor(), "layers.0.up.weight_s");
  catalog = coded_catalog();
  catalog.remove("layers.1.up.weight_s");
  const Error missing = rule_refusal(decoded_blocks(), catalog);
  EXPECT_EQ(missing.sentence(),
            "the tensor is quantized (F8_E4M3), and its scales \"layers.1.up.weight_s\" are "
            "missing");
  EXPECT_EQ(missing.tensor(), "layers.1.up.weight");
  EXPECT_EQ(missing.hint_text(), "check that the download is complete");
}

TEST(RuleErrors, UnmatchedTensorsAreCountedAndThreeAreNamed) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("x.a", {1});
  const auto sentence = [&] { return rule_refusal(std::string(kTinyFamily), catalog).sentence(); };
  EXPECT_EQ(sentence(), R"(1 tensor matches no rule of family "tiny": "x.a")");
  catalog.add("x.b", {1}).add("x.c", {1});
  EXPECT_EQ(sentence(), R"(3 tensors match no rule of family "tiny": "x.a", "x.b", "x.c")");
  catalog.add("x.d", {1});
  EXPECT_EQ(sentence(), R"(4 tensors match no rule of family "tiny": "x.a", "x.b", "x.c", ...)");
}

TEST(RuleErrors, UnmatchedTensorsAreToldTogetherWithMissingOnes) {
  const std::string end =
      "pass --exclude to leave tensors out, or --scheme hf to keep names and shapes";
  FakeCatalog catalog = tiny_catalog();
  catalog.add("zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", {1});
  const auto hint = [&] { return rule_refusal(std::string(kTinyFamily), catalog).hint_text(); };
  EXPECT_EQ(hint(), end);
  catalog.remove("layers.1.up.weight");
  EXPECT_EQ(hint(), "a tensor that a rule needs is missing: \"layers.1.up.weight\"; " + end);
  catalog.remove("layers.0.experts.0.weight");
  EXPECT_EQ(hint(),
            "2 tensors that the rules need are missing, first \"layers.1.up.weight\"; " + end);
}

TEST(RuleErrors, UnmatchedTensorsOfAnUnknownQuantizationNameIt) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("a.other", {1}).add("layers.0.up.qweight", {1});
  const Error error = rule_refusal(std::string(kTinyFamily), catalog);
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(),
            "the checkpoint is quantized with GPTQ or AWQ, which can't be decoded");
  EXPECT_EQ(error.tensor(), "layers.0.up.qweight");
  EXPECT_EQ(error.hint_text(),
            "convert the model that it was made from, or pass --scheme hf to keep the codes");
}

TEST(RuleErrors, MissingTensorsAreCountedAndMissingLayersNamed) {
  FakeCatalog catalog = tiny_catalog();
  catalog.remove("layers.1.up.weight");
  const Error one = rule_refusal(std::string(kTinyFamily), catalog);
  EXPECT_EQ(one.code(), ErrorCode::not_found);
  EXPECT_EQ(one.sentence(), "the source lacks a tensor that a rule needs");
  EXPECT_EQ(one.hint_text(), "config.json expects it; check that the download is complete");
  catalog.remove("layers.1.experts.0.weight").remove("layers.1.experts.1.weight");
  const Error all = rule_refusal(std::string(kTinyFamily), catalog);
  EXPECT_EQ(all.sentence(), "the source lacks 3 tensors that rules need");
  EXPECT_EQ(all.tensor(), "layers.1.up.weight");
  EXPECT_EQ(all.hint_text(),
            "config.json asks for 2 layers, and the checkpoint has nothing of layer 1; if layers "
            "were removed from the model, correct config.json, else check that the download is "
            "complete");
  catalog.files.clear();
  EXPECT_EQ(rule_refusal(std::string(kTinyFamily), catalog).hint_text(),
            "this checkpoint was made without it; convert the model itself, or make the checkpoint "
            "again with it");
}

TEST(RuleErrors, AWindowIsExplainedByTheKeysOfItsWholeAxis) {
  const std::string text = with_norm_rule(
      R"(["norm.weight [D@0:2*D]", "a.scale [D]"], ["norm.weight [D@D:2*D]", "b.scale [D]"])");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {16};
  EXPECT_EQ(rule_refusal(text, catalog).sentence(),
            "config.json implies a size of 14 (hidden_size), and the tensor has 16 (16), which is "
            "larger");
  const std::string halves = with_norm_rule(
      R"(["norm.weight [(D 0/2)]", "a.scale [D]"], ["norm.weight [(D 1/2)]", "b.scale [D]"])");
  EXPECT_EQ(rule_refusal(halves, catalog).sentence(),
            "hidden_size in config.json is 7, and the tensor has 8 (16), which is larger");
  catalog.get("norm.weight").shape = {13};
  EXPECT_EQ(rule_refusal(halves, catalog).sentence(),
            "config.json implies a size of 14 (hidden_size), and the tensor has 13 (13), which is "
            "smaller");
}

// The window's own size is fixed. Only the rest of the axis comes from the config.
TEST(RuleErrors, AWindowOfAFixedSizeIsExplainedByItsAxisToo) {
  const std::string text = with_norm_rule(
      R"(["norm.weight [F@0:F+D]", "a.scale [F]"], ["norm.weight [D@F:F+D]", "b.scale [D]"])");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {13};
  EXPECT_EQ(rule_refusal(text, catalog).sentence(),
            "config.json implies a size of 12 (hidden_size), and the tensor has 13 (13), which is "
            "larger");
}

TEST(RuleErrors, OnlyLayersThatRulesReadAreCounted) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("layers.7.old", {1});
  for (const char* name : {"up.weight", "experts.0.weight", "experts.1.weight"})
    catalog.remove(std::string("layers.1.") + name);
  const Error error = rule_refusal(tiny_family_with("old.* [*]", "*.old [*]"), catalog);
  EXPECT_TRUE(error.hint_text().starts_with(
      "config.json asks for 2 layers, and the checkpoint has nothing of layer 1; "))
      << error.hint_text();
}

TEST(RuleErrors, ATensorOfAnotherRankHasTheFamilysHint) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("layers.0.up.weight").shape = {35};
  const Error error = rule_refusal(std::string(kTinyFamily), catalog);
  EXPECT_EQ(error.sentence(), "the tensor is 35; config.json says 5x7");
  EXPECT_EQ(error.hint_text(),
            "check that config.json belongs to this model; if it does, the family may be wrong");
}

TEST(RuleErrors, AnEmbeddingIsComparedWithTheHeadOfTheConfigsRows) {
  FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3"));
  const auto hint = [&] {
    const Error error = catch_error([&] { compile_model(catalog, {}); });
    EXPECT_EQ(error.tensor(), "model.embed_tokens.weight");
    return error.hint_text();
  };
  catalog.get("model.embed_tokens.weight").shape = {25, 26};
  EXPECT_TRUE(hint().starts_with("\"lm_head.weight\" has 22 rows; give both the same number first"))
      << hint();
  catalog.get("lm_head.weight").shape = {25, 26};
  EXPECT_EQ(hint(),
            "if you added or removed tokens, set \"vocab_size\": 25 in config.json; --vocab N then "
            "pads or cuts the vocabulary");
}

TEST(RuleErrors, LayersOfTwoDtypesNameBothTensors) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("layers.1.up.weight").dtype = DType::f32;
  const Error error = rule_refusal(std::string(kTinyFamily), catalog);
  EXPECT_EQ(error.sentence(),
            "the dtype is F32 here and BF16 in \"layers.0.up.weight\", and both belong to leaf "
            "\"params.decoder.layers.wi.kernel\"");
  EXPECT_EQ(error.tensor(), "layers.1.up.weight");
  EXPECT_EQ(error.file(), "model.safetensors");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/parts/mlp/0");
}

// A model of another generation is recognized by its names.
TEST(RuleErrors, NamesAreCheckedBeforeShapes) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {9};
  const auto refusal = [&] { return rule_refusal(std::string(kTinyFamily), catalog); };
  EXPECT_EQ(refusal().tensor(), "norm.weight");
  catalog.remove("layers.1.up.weight");
  EXPECT_EQ(refusal().tensor(), "layers.1.up.weight");
  catalog.add("x.a", {1});
  EXPECT_EQ(refusal().tensor(), "x.a");
}

}  // namespace
}  // namespace hfshard
