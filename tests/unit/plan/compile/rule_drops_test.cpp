// Drops, fills and tensors that the user leaves out.

#include <algorithm>
#include <string>
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

// Returns the tiny family with another drop than that of `old.*`.
std::string with_drop(const std::string& drop) {
  return tiny_family_with(R"(["old.* [*]", {"why": "unused"}])", drop);
}

std::string tensor_name(const Catalog& catalog, std::uint32_t tensor) {
  return catalog.tensors.at(tensor).name;
}

TEST(RuleDrops, EachTwinEqualsTheTensorOfItsOwnLayer) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("layers.0.twin", {5, 7}).add("layers.1.twin", {5, 7});
  const std::string text = with_drop(
      R"(["layers.{m}.twin [F D]", {"for": {"m": "L"}, "same_as": "layers.{m}.up.weight",
          "why": "stored twice"}])");
  const CompiledModel model = compile_text(text, catalog);
  ASSERT_EQ(model.drops.size(), 2U);
  for (const std::size_t layer : {0U, 1U}) {
    const Drop& drop = model.drops[layer];
    const std::string prefix = "layers." + std::to_string(layer);
    EXPECT_EQ(tensor_name(catalog, drop.source), prefix + ".twin");
    ASSERT_TRUE(drop.same_as);
    EXPECT_EQ(tensor_name(catalog, *drop.same_as), prefix + ".up.weight");
    EXPECT_EQ(drop.why, "stored twice");
    EXPECT_EQ(model.rules.at(drop.rule), "mappings/tiny.json#/drop/0");
  }
  catalog.get("layers.1.twin").dtype = DType::f32;
  const Error dtype = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(dtype.code(), ErrorCode::bad_input);
  EXPECT_EQ(dtype.sentence(),
            "the tensor should equal \"layers.1.up.weight\", which has another shape or dtype");
  EXPECT_EQ(dtype.tensor(), "layers.1.twin");
  EXPECT_EQ(dtype.rule(), "mappings/tiny.json#/drop/0");
  EXPECT_EQ(dtype.hint_text(), "pass --drop 'layers.1.twin' to accept the loss");
}

TEST(RuleDrops, ATwinOfATensorThatIsMissingIsRefused) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("old.twin", {7});
  const std::string text =
      with_drop(R"(["old.twin [D]", {"same_as": "old.norm", "why": "stored twice"}],
                   ["old.norm [*]", {"why": "unused"}])");
  const Error error = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(), "the tensor should equal \"old.norm\", which is missing");
  catalog.add("old.norm", {6});
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).sentence(),
            "the tensor should equal \"old.norm\", which has another shape or dtype");
  MappingOptions options;
  options.drop = {"old.twin"};
  const CompiledModel model = compile_text(text, catalog, options);
  ASSERT_EQ(model.drops.size(), 2U);
  EXPECT_EQ(model.drops[0].why, "--drop \"old.twin\"");
  EXPECT_EQ(model.rules.at(model.drops[0].rule), "--drop");
  EXPECT_FALSE(model.drops[0].same_as);
}

TEST(RuleDrops, ADropOfAPartStartsWhereItsWindowDoes) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {12};
  std::string text = with_norm_rule(R"(["norm.weight [D@0:D+F]", "norm.scale [D]"])");
  const std::string drop = R"(["old.* [*]", {"why": "unused"}])";
  text.replace(text.find(drop), drop.size(), R"(["norm.weight [F@D:D+F]", {"why": "unused"}])");
  const CompiledModel model = compile_text(text, catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(model.drops[0].map.src_base, 7U);
  EXPECT_EQ(model.drops[0].map.digits, (DigitList{{5, 1, 0}}));
}

TEST(RuleDrops, ADropWithAShapeRefusesOthers) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("old", {7, 6});
  const Error error =
      catch_error([&] { compile_text(with_drop(R"(["old [D F]", {"why": "unused"}])"), catalog); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "the rule needs 5, and the tensor has 6 (7x6), which is larger");
  EXPECT_EQ(error.tensor(), "old");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/drop/0");
}

TEST(RuleDrops, ATensorOfADropThatIsExcludedIsLeftOutOnce) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("old.a", {3}).add("old.b", {3});
  MappingOptions options;
  options.exclude = {"old.a"};
  const CompiledModel model = compile_text(std::string(kTinyFamily), catalog, options);
  EXPECT_TRUE(prove(catalog, model).empty());
  ASSERT_EQ(model.drops.size(), 2U);
  EXPECT_EQ(model.drops[0].why, "--exclude \"old.a\"");
  EXPECT_EQ(model.rules.at(model.drops[0].rule), "--exclude");
  EXPECT_EQ(model.drops[1].why, "unused");
  EXPECT_EQ(tensor_name(catalog, model.drops[1].source), "old.b");
}

TEST(RuleDrops, ScalesGoWithTheirCodesAndSayWhose) {
  const std::string text =
      tiny_family_with("\"dims\"", "\"decode\": [" + std::string(kBlocks) + "], \"dims\"");
  FakeCatalog catalog = coded_catalog();
  catalog.add("layers.0.up.input_scale", {}, DType::f32);
  MappingOptions options;
  options.exclude = {"*.up.weight"};
  const CompiledModel model = compile_text(text, catalog, options);
  EXPECT_TRUE(prove(catalog, model).empty());
  std::vector<std::string> found;
  for (const Drop& drop : model.drops) {
    found.push_back(tensor_name(catalog, drop.source) + ": " + drop.why + " by " +
                    model.rules.at(drop.rule));
  }
  std::ranges::sort(found);
  const std::string decoder = " by mappings/tiny.json#/decode/0";
  EXPECT_EQ(
      found,
      (std::vector<std::string>{
          "layers.0.up.input_scale: scales of activations, for inference on codes by " +
              std::string(kBesideCodes),
          "layers.0.up.weight: --exclude \"*.up.weight\" by --exclude",
          "layers.0.up.weight_s: scales for \"layers.0.up.weight\", which is left out" + decoder,
          "layers.1.up.weight: --exclude \"*.up.weight\" by --exclude",
          "layers.1.up.weight_s: scales for \"layers.1.up.weight\", which is left out" + decoder}));
}

TEST(RuleDrops, LeavesThatAreLeftOutAreCounted) {
  const FakeCatalog catalog = tiny_catalog();
  MappingOptions options;
  EXPECT_EQ(compile_text(std::string(kTinyFamily), catalog, options).left_out_leaves, 0U);
  options.exclude = {"*.experts.*", "norm.*"};
  EXPECT_EQ(compile_text(std::string(kTinyFamily), catalog, options).left_out_leaves, 2U);
  options.exclude = {"layers.1.up.*"};
  const Error error =
      catch_error([&] { compile_text(std::string(kTinyFamily), catalog, options); });
  EXPECT_EQ(error.sentence(),
            "the rules cover only part of leaf \"params.decoder.layers.wi.kernel\"");
  EXPECT_EQ(error.tensor(), "layers.1.up.weight");
  EXPECT_EQ(error.hint_text(),
            "--include and --exclude must keep all of its source tensors or none; for fewer "
            "layers, pass --num-layers");
}

TEST(RuleDrops, AFillOfAPartStartsWhereItsWindowDoes) {
  std::string text = with_norm_rule(R"(["norm.weight [D]", "norm.scale [D@0:D+F]"])");
  text.replace(text.find("\"parts\""), 7,
               R"("fill": [[1.5, "norm.scale [F@D:D+F]"], [2, "ones.scale [D]", {"dtype": "f32"}]],
                  "parts")");
  const FakeCatalog catalog = tiny_catalog();
  MappingOptions options;
  options.dtype = DType::f16;
  const CompiledModel model = compile_text(text, catalog, options);
  EXPECT_TRUE(prove(catalog, model).empty());
  ASSERT_EQ(model.fills.size(), 2U);
  EXPECT_EQ(model.leaves.at(model.fills[0].target).name, "params.norm.scale");
  EXPECT_EQ(model.fills[0].scalar, 1.5);
  EXPECT_EQ(model.fills[0].map.dst_base, 7U);
  EXPECT_EQ(model.fills[0].map.digits, (DigitList{{5, 0, 1}}));
  EXPECT_EQ(model.rules.at(model.fills[0].rule), "mappings/tiny.json#/schemes/maxtext/fill/0");
  const Leaf& ones = model.leaves.at(model.fills[1].target);
  EXPECT_EQ(ones.name, "params.ones.scale");
  EXPECT_EQ(ones.dtype, DType::f32) << "the rule's is the least";
  EXPECT_EQ(ones.axes, std::vector<std::string>{"norm"});
  options.casts = {{"*.ones.scale", DType::bf16}};
  const CompiledModel cast = compile_text(text, catalog, options);
  EXPECT_EQ(cast.leaves.at(cast.fills.at(1).target).dtype, DType::bf16);
}

// Exclusion of a leaf's only tensor takes the fills of the leaf, also if it has a dtype.
TEST(RuleDrops, AFillGoesWithTheTensorsOfItsLeaf) {
  std::string text = with_norm_rule(R"(["norm.weight [D]", "norm.scale [D@0:D+F]"])");
  text.replace(text.find("\"parts\""), 7,
               R"("fill": [[1, "norm.scale [F@D:D+F]", {"dtype": "f32"}]], "parts")");
  MappingOptions options;
  options.exclude = {"norm.weight"};
  const CompiledModel model = compile_text(text, tiny_catalog(), options);
  EXPECT_TRUE(model.fills.empty());
  EXPECT_EQ(model.leaves.size(), 2U);
}

TEST(RuleDrops, TensorsBesideCodesThatAreExcludedAreLeftOutOnce) {
  const std::string text =
      tiny_family_with("\"dims\"", "\"decode\": [" + std::string(kBlocks) + "], \"dims\"");
  FakeCatalog catalog = coded_catalog();
  catalog.add("layers.0.up.input_scale", {}, DType::f32).add("layers.1.up.input_scale", {});
  MappingOptions options;
  options.exclude = {"layers.0.up.input_scale"};
  const CompiledModel model = compile_text(text, catalog, options);
  EXPECT_TRUE(prove(catalog, model).empty());
  ASSERT_EQ(model.drops.size(), 2U);
  EXPECT_EQ(model.drops[0].why, "--exclude \"layers.0.up.input_scale\"");
  EXPECT_EQ(model.drops[1].why, "scales of activations, for inference on codes");
  EXPECT_EQ(tensor_name(catalog, model.drops[1].source), "layers.1.up.input_scale");
}

}  // namespace
}  // namespace hfshard
