#include <string>

#include <gtest/gtest.h>

#include "plan/compile_parts.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// What no embedded family uses: compiled from a family file that only the test knows.
CompiledModel compile_text(const std::string& text, const Catalog& catalog) {
  const MappingTable table = load_table(tiny_file(text));
  const Json config = parse_json(R"({"hidden_size": 7, "num_hidden_layers": 2})", "config.json");
  const std::map<std::string, std::string> options;
  Bindings bindings(table, config, options, {});
  const ResolvedModel resolved = resolve(table.schemes[0], bindings, true);
  ModelBuilder builder(catalog, MappingOptions{});
  compile_rules(table, table.schemes[0], bindings, resolved, builder);
  return builder.finish();
}

FakeCatalog tiny_catalog() {
  FakeCatalog out;
  out.add("norm.weight", {7});
  for (const char* layer : {"layers.0.", "layers.1."}) {
    out.add(std::string(layer) + "up.weight", {5, 7});
    out.add(std::string(layer) + "experts.0.weight", {5, 7});
    out.add(std::string(layer) + "experts.1.weight", {5, 7});
  }
  return out;
}

std::string with_norm_rule(const std::string& rules) {
  return tiny_family_with("[\"norm.weight [D]\", \"norm.scale [D]\"]", rules);
}

TEST(CompileRules, TheTinyFamilyCompilesAndIsProved) {
  const FakeCatalog catalog = tiny_catalog();
  const CompiledModel model = compile_text(std::string(kTinyFamily), catalog);
  EXPECT_EQ(model.leaves.size(), 3U);
  EXPECT_TRUE(prove(catalog, model).empty());
}

TEST(CompileRules, ADtypeFloorWidensNarrowFloatsOnly) {
  const std::string text =
      with_norm_rule("[\"norm.weight [D]\", \"norm.scale [D]\", {\"dtype\": \"f32\"}]");
  FakeCatalog catalog = tiny_catalog();
  EXPECT_EQ(compile_text(text, catalog).leaves[2].path, "params.norm.scale");
  EXPECT_EQ(compile_text(text, catalog).leaves[2].dtype, DType::f32);
  catalog.get("norm.weight").dtype = DType::f64;
  EXPECT_EQ(compile_text(text, catalog).leaves[2].dtype, DType::f64);
}

TEST(CompileRules, AConstantIsRoundedToItsDtype) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [D]\", \"norm.scale [D]\", {\"value\": {\"mul\": {\"expr\": \"sqrt(D)\", "
      "\"const_dtype\": \"bf16\"}, \"add\": {\"expr\": 1, \"const_dtype\": \"f32\"}}}]");
  const CompiledModel model = compile_text(text, tiny_catalog());
  EXPECT_EQ(model.transfers[0].value.mul, 2.640625F);
  EXPECT_EQ(model.transfers[0].value.add, 1.0F);
}

TEST(CompileRules, WindowsAndFixedIndicesSplitATensor) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [D@0:2*D]\", \"a.scale [D]\"], [\"norm.weight [D@D:2*D]\", \"b.scale [D]\"]");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {14};
  const CompiledModel model = compile_text(text, catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  EXPECT_EQ(model.transfers[1].map.src_base, 7U);
  const std::string even = with_norm_rule(
      "[\"norm.weight [(D 0/2)]\", \"a.scale [D]\"], [\"norm.weight [(D 1/2)]\", \"b.scale [D]\"]");
  EXPECT_TRUE(prove(catalog, compile_text(even, catalog)).empty());
}

TEST(CompileRules, CopiesAndRepeatsUseASourceAgain) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [D]\", \"a.scale [D]\"], [\"norm.weight [D]\", \"b.scale [D]\", {\"copy\": "
      "true}], "
      "[\"norm.weight [D]\", \"c.kernel [cyc D]\", {\"copy\": true, \"repeat\": \"cyc\", \"axes\": "
      "{\"cyc\": null}}]");
  const FakeCatalog catalog = tiny_catalog();
  const CompiledModel model = compile_text(text, catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  EXPECT_EQ(model.transfers[2].map.digits[0], (Digit{2, 0, 7}));
}

TEST(CompileRules, ASourceThatIsUsedTwiceWithoutCopyFailsTheProof) {
  const FakeCatalog catalog = tiny_catalog();
  const CompiledModel model = compile_text(
      with_norm_rule(
          "[\"norm.weight [D]\", \"a.scale [D]\"], [\"norm.weight [D]\", \"b.scale [D]\"]"),
      catalog);
  const auto findings = prove(catalog, model);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "norm.weight");
}

TEST(CompileRules, RulesOfOneLeafMustAgreeOnItsShapeAndDtype) {
  FakeCatalog catalog = tiny_catalog();
  catalog.add("other.weight", {5});
  const std::string shapes = with_norm_rule(
      "[\"norm.weight [D]\", \"a.scale [D]\"], [\"other.weight [F]\", \"a.scale [F]\"]");
  EXPECT_EQ(catch_error([&] { compile_text(shapes, catalog); }).code(), ErrorCode::bad_input);
  catalog.remove("other.weight").add("other.weight", {7}, DType::f32);
  const std::string dtypes = with_norm_rule(
      "[\"norm.weight [D]\", \"a.b [D@0:2*D]\"], [\"other.weight [D]\", \"a.b [D@D:2*D]\"]");
  EXPECT_EQ(catch_error([&] { compile_text(dtypes, catalog); }).code(), ErrorCode::bad_input);
}

TEST(CompileRules, AFillAloneNeedsADtype) {
  const std::string without =
      tiny_family_with("\"parts\"", "\"fill\": [[1, \"ones.scale [D]\"]], \"parts\"");
  EXPECT_EQ(catch_error([&] { compile_text(without, tiny_catalog()); }).code(),
            ErrorCode::bad_input);
  const std::string text = tiny_family_with(
      "\"parts\"", "\"fill\": [[1, \"ones.scale [D]\", {\"dtype\": \"f32\"}]], \"parts\"");
  const FakeCatalog catalog = tiny_catalog();
  const CompiledModel model = compile_text(text, catalog);
  ASSERT_EQ(model.fills.size(), 1U);
  EXPECT_EQ(model.fills[0].scalar, 1.0);
  EXPECT_EQ(model.leaves[model.fills[0].target].dtype, DType::f32);
  EXPECT_TRUE(prove(catalog, model).empty());
}

TEST(CompileRules, AFillOfAGroupCoversTheStack) {
  const std::string text = tiny_family_with(
      "\"use\": [\"mlp\"]",
      "\"use\": [\"mlp\"], \"fill\": [[1, \"one.scale [D]\", {\"dtype\": \"bf16\"}]]");
  const FakeCatalog catalog = tiny_catalog();
  const CompiledModel model = compile_text(text, catalog);
  ASSERT_EQ(model.fills.size(), 1U);
  EXPECT_EQ(model.leaves[model.fills[0].target].shape, (Shape{7, 2}));
  EXPECT_TRUE(prove(catalog, model).empty());
}

TEST(CompileRules, ADropThatARuleUsesTooFailsTheProof) {
  FakeCatalog catalog = tiny_catalog();
  const std::string text = tiny_family_with("old.* [*]", "norm.* [*]");
  EXPECT_EQ(prove(catalog, compile_text(text, catalog)).size(), 1U);
}

TEST(CompileRules, QuantisedTensorsAreUnsupported) {
  const std::string by_dtype = tiny_family_with("\"dims\"",
                                                "\"decode\": [{\"dtype\": \"F8_E4M3\", \"kind\": "
                                                "\"block\", \"scale\": \"{name}_s\"}], \"dims\"");
  FakeCatalog catalog = tiny_catalog();
  EXPECT_NO_THROW(compile_text(by_dtype, catalog));
  catalog.get("norm.weight").dtype = DType::f8_e4m3;
  const Error error = catch_error([&] { compile_text(by_dtype, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "norm.weight");
  const std::string by_rule =
      with_norm_rule("[\"norm.weight [D]\", \"norm.scale [D]\", {\"decode\": \"mx\"}]");
  EXPECT_EQ(catch_error([&] { compile_text(by_rule, tiny_catalog()); }).code(),
            ErrorCode::unsupported);
}

TEST(CompileRules, ALeafCannotBeABranchToo) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [D]\", \"a.scale [D]\"], [\"norm.weight [D]\", \"a.scale.b [D]\", {\"copy\": "
      "true}]");
  EXPECT_EQ(catch_error([&] { compile_text(text, tiny_catalog()); }).code(),
            ErrorCode::unsupported);
}

}  // namespace
}  // namespace hfshard
