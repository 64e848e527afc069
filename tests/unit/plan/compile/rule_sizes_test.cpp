#include <string>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/tiny_rules.h"

namespace hfshard {
namespace {

TEST(CompileRules, ASizeThatNoKeyStatesIsTheRules) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("layers.0.up.weight").shape = {6, 7};
  EXPECT_EQ(catch_error([&] { compile_text(std::string(kTinyFamily), catalog); }).sentence(),
            "the rule needs 5, and the tensor has 6 (6x7), which is larger");
}

TEST(CompileRules, AKeyOfSeveralSizesIsNamedOnce) {
  std::string text = with_norm_rule(
      "[\"norm.weight [(cyc D)]\", \"norm.scale [cyc D]\", {\"axes\": {\"cyc\": null}}]");
  text.replace(text.find("\"cyc\": 2"), 8, "\"cyc\": \"hidden_size * 2\"");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {99};
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).sentence(),
            "config.json implies a size of 98 (hidden_size), and the tensor has 99 (99), which is "
            "larger");
}

TEST(CompileRules, ASizeOfZeroExplainsNoOther) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [(cyc D)]\", \"norm.scale [cyc D]\", {\"axes\": {\"cyc\": null}}]");
  EXPECT_EQ(
      catch_error([&] { compile_text(text, tiny_catalog(), {}, 0); }).sentence(),
      "config.json implies a size of 0 (hidden_size), and the tensor has 7 (7), which is larger");
}

// Returns the hint for a tensor whose rows differ from the vocabulary of 7 tokens.
std::string hint_for(const char* rule, const Shape& shape, const Shape& embedding) {
  std::string text = with_norm_rule(
      std::string(rule) + R"(, ["embed.weight )" +
      (embedding.rank() == 1 ? R"([D]", "e.kernel [D]"])" : R"([D F]", "e.kernel [D F]"])"));
  text.replace(text.find("\"hidden_size\""), 13, "\"vocab_size\"");
  FakeCatalog catalog = tiny_catalog();
  catalog.remove("norm.weight");
  catalog.add(text.find("lm_head") == std::string::npos ? "norm.weight" : "lm_head.weight", shape);
  catalog.add("embed.weight", embedding);
  return catch_error([&] { compile_text(text, catalog); }).hint_text();
}

// The embedding and the head need the same rows. Other tensors have no twin.
TEST(CompileRules, OnlyTheHeadIsComparedWithTheEmbedding) {
  const char* const head = R"(["lm_head.weight [D F]", "h.kernel [D F]"])";
  EXPECT_EQ(hint_for(head, {8, 5}, {7, 5}),
            "\"embed.weight\" has 7 rows; give both the same number first "
            "(resize_token_embeddings in transformers), or pass --scheme hf --include '*' to keep "
            "both as they are");
  const std::string alone =
      "if you added or removed tokens, set \"vocab_size\": 8 in config.json; --vocab N then pads "
      "or cuts the vocabulary";
  EXPECT_EQ(hint_for(head, {8, 5}, {7}), alone);
  EXPECT_EQ(hint_for(R"(["norm.weight [D]", "norm.scale [D]"])", {8}, {7, 5}), alone);
}

TEST(CompileRules, AStackAndAPlainLeafOfTheSameAxesDiffer) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("all.weight", {7, 2, 5});
  const std::string text = with_norm_rule(
      "[\"norm.weight [D]\", \"norm.scale [D]\"], [\"all.weight [D L F]\", "
      "\"decoder.layers.wi.kernel [D L F]\", {\"axes\": {\"L\": \"layers\"}}]");
  EXPECT_EQ(
      catch_error([&] { compile_text(text, catalog); }).sentence(),
      "leaf \"params.decoder.layers.wi.kernel\" is 7x2x5 here and 7x2x5 in another rule, or its "
      "axes differ");
}

// Layers can have names that begin with their number.
TEST(CompileRules, TheNearestRuleOfANumberedLayerIsNamed) {
  std::string text = tiny_family_with("\"layers.{l}.\"", "\"{l}.\"");
  text.replace(text.find("up.weight"), 9, "w");
  FakeCatalog catalog;
  catalog.add("norm.weight", {7}).add("0.v", {5, 7});
  for (const char* layer : {"0.", "1."}) {
    catalog.add(std::string(layer) + "w", {5, 7});
    catalog.add(std::string(layer) + "experts.0.weight", {5, 7});
    catalog.add(std::string(layer) + "experts.1.weight", {5, 7});
  }
  const Error error = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(error.tensor(), "0.v");
  EXPECT_EQ(error.hint_text(),
            "the nearest rule is for \"*.w\"; pass --exclude to leave tensors out, or --scheme hf "
            "to keep names and shapes");
}

TEST(CompileRules, ScalesWithAnotherNameAreNamed) {
  std::string text =
      tiny_family_with("\"dims\"", "\"decode\": [" + std::string(kBlocks) + "], \"dims\"");
  text.replace(text.find("old.*"), 5, "*_scale_x");
  FakeCatalog catalog = coded_catalog();
  catalog.remove("layers.0.up.weight_s");
  const auto refusal = [&] { return catch_error([&] { compile_text(text, catalog); }); };
  EXPECT_EQ(refusal().code(), ErrorCode::not_found);
  catalog.add("layers.0.up.weight_scale_x", {2, 3}, DType::f32);
  EXPECT_EQ(refusal().code(), ErrorCode::unsupported);
  EXPECT_EQ(refusal().sentence(),
            "the tensor is stored as F8_E4M3, and hfshard doesn't know the form of its scales, "
            "\"layers.0.up.weight_scale_x\"");
}

}  // namespace
}  // namespace hfshard
