// Tests decisions: the first axis rule that fits, and the proof before any plan.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/steps.h"
#include "plan/layout/mesh.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {
namespace {

using Spec = std::vector<std::vector<std::string>>;

TEST(AxisRuleOrder, TheFirstRuleThatFitsWins) {
  const AxisRules rules =
      parse_axis_rules(R"([["a", ["x"]], ["b", ["x", "y"]], ["b", ["y"]], ["a", ["z"]]])", "t");
  EXPECT_EQ(logical_to_mesh_axes({"a"}, rules), (Spec{{"x"}}));
  EXPECT_EQ(logical_to_mesh_axes({"b"}, rules), (Spec{{"x", "y"}}));
  EXPECT_EQ(logical_to_mesh_axes({"b", "a"}, rules), (Spec{{"y"}, {"x"}}));
}

TEST(CompileModelProof, ATensorThatTwoRulesMoveIsRefused) {
  FakeCatalog catalog;
  catalog.config_text = R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 1})";
  catalog.add("norm.weight", {7}).add("layers.0.up.weight", {5, 7});
  catalog.add("layers.0.experts.0.weight", {5, 7}).add("layers.0.experts.1.weight", {5, 7});
  EXPECT_EQ(compile_model(catalog, {}, load_table(tiny_file(kTinyFamily))).leaves.size(), 3U);
  const std::string twice =
      tiny_family_with(R"(["norm.weight [D]", "norm.scale [D]"])",
                       R"(["norm.weight [D]", "a.scale [D]"], ["norm.weight [D]", "b.scale [D]"])");
  const Error error =
      catch_error([&] { compile_model(catalog, {}, load_table(tiny_file(twice))); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "norm.weight");
}

TEST(FamilyOf, AMappingThatIsAskedForMustBeTheModels) {
  const Json config = example_config("qwen3");
  std::vector<MappingFile> own{{"tiny", "tiny.json", std::string(kTinyFamily)}};
  const Error error = catch_error([&] { family_of(config, "dir", own); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "the mapping of family \"tiny\" doesn't match config.json");
  EXPECT_EQ(error.file(), "dir/config.json");
  EXPECT_EQ(error.rule(), "tiny.json#/match");
  own[0].asked = false;
  EXPECT_EQ(family_of(config, "dir", own).name, "qwen3");
}

// Another dialect doesn't mend the file.
TEST(CompileDialect, AConfigThatIsNotJsonHasNoHintToADialect) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {7});
  MappingOptions options;
  options.scheme = "hf";
  options.dialect = "modules";
  catalog.config_text = R"({"model_type": "unknown"})";
  EXPECT_EQ(catch_error([&] { compile_model(catalog, options); }).hint_text(),
            "pass --dialect files to keep the source's names, which works without a family");
  catalog.config_text = "{";
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.hint_text(), "");
}

// A tied model needs no head, so the embedding is what it lacks.
TEST(CheckNames, AMissingEmbeddingIsNotAMissingHead) {
  const auto untied = [](bool tied, const char* missing) {
    const Json config = example_config("qwen3", {{"tie_word_embeddings", Json(tied)}});
    MappingOptions options;
    options.scheme = "torchtitan";
    options.stacked = false;
    FakeCatalog catalog = FakeCatalog::of("qwen3", config, "torchtitan");
    catalog.remove(missing);
    std::vector<bool> out;
    for (const CheckFinding& finding : check_names(catalog, options).findings) {
      EXPECT_EQ(finding.tensor, missing);
      out.push_back(finding.untied);
    }
    return out;
  };
  EXPECT_EQ(untied(false, "lm_head.weight"), std::vector<bool>{true});
  EXPECT_EQ(untied(true, "model.embed_tokens.weight"), (std::vector<bool>{false, false}));
}

TEST(CheckNames, ScalesBesideCodesAreDroppedAndOthersMatchNothing) {
  const std::string scale = "model.layers.1.self_attn.k_proj.k_scale";
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3"));
  catalog.add(scale, {}, DType::f32);
  const NameCheck plain = check_names(catalog, {});
  EXPECT_TRUE(plain.dropped.empty());
  ASSERT_EQ(plain.findings.size(), 1U);
  EXPECT_EQ(plain.findings[0].tensor, scale);
  EXPECT_EQ(plain.findings[0].what, "neither a rule nor a drop matches the name");
  catalog.get(gate).dtype = DType::f8_e4m3;
  catalog.add(gate + "_scale", {}, DType::f32);
  const NameCheck coded = check_names(catalog, {});
  EXPECT_TRUE(coded.findings.empty());
  ASSERT_EQ(coded.dropped.size(), 1U);
  EXPECT_EQ(coded.dropped[0].tensor, scale);
  EXPECT_EQ(coded.dropped[0].rule, kBesideCodes);
  EXPECT_EQ(coded.dropped[0].what, "scales of the key-value cache, for inference on codes");
}

TEST(CheckNames, NamesOfAQuantizationThatHfshardCannotDecodeNameIt) {
  FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3"));
  const std::string up = "model.layers.1.mlp.up_proj.";
  catalog.add(up + "absmax", {4}).add(up + "qzeros", {4}).add(up + "zeros", {4});
  std::vector<std::string> found;
  const NameCheck check = check_names(catalog, {});
  for (const CheckFinding& finding : check.findings)
    found.push_back(finding.tensor.substr(up.size()) + ": " + finding.what);
  EXPECT_EQ(found,
            (std::vector<std::string>{"absmax: quantized with bitsandbytes, which can't be decoded",
                                      "qzeros: quantized with GPTQ or AWQ, which can't be decoded",
                                      "zeros: neither a rule nor a drop matches the name"}));
}

// Only the name of a value tells that codes are stored for it.
TEST(CheckNames, CodesWithoutScalesLackThem) {
  const std::string gate = "model.layers.1.mlp.gate_proj.weight";
  FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3"));
  catalog.remove(gate);
  NameList list;
  list.config_text = catalog.config_text;
  for (const TensorInfo& info : catalog.tensors) list.names.push_back(info.name);
  list.names.push_back(gate + "_packed");
  std::ranges::sort(list.names);
  const NameCheck found = check_names(list, {});
  ASSERT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.findings[0].tensor, gate + "_scale");
  EXPECT_EQ(found.findings[0].what, "the index lacks the scales of \"" + gate + "_packed\"");
}

}  // namespace
}  // namespace hfshard
