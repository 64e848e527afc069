#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using Lines = std::vector<std::string>;

// The names of a tiny model with two layers.
NameList tiny_names() {
  NameList out;
  out.location = "dir";
  out.config_text = R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 2})";
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const char* name : {"experts.0.weight", "experts.1.weight", "up.weight"})
      out.names.push_back(std::string(layer) + name);
  }
  out.names.emplace_back("norm.weight");
  return out;
}

void add_name(NameList& list, const std::string& name) {
  list.names.insert(std::ranges::lower_bound(list.names, name), name);
}

MappingOptions with_family(const std::string& text) {
  MappingOptions out;
  MappingFile& file = out.files.emplace_back();
  file.family = "tiny";
  file.name = "tiny.json";
  file.text = text;
  return out;
}

MappingOptions tiny_rules_alone() { return with_family(std::string(kTinyFamily)); }

Lines finding_lines(const std::vector<CheckFinding>& findings) {
  Lines out;
  for (const CheckFinding& finding : findings)
    out.push_back(finding.tensor + ": " + finding.what + " by " + finding.rule);
  return out;
}

const std::string kScheme = "tiny.json#/schemes/maxtext/";

TEST(CheckNames, RulesAndLeavesOfAWholeModelAreCountedOnce) {
  const NameCheck found = check_names(tiny_names(), tiny_rules_alone());
  EXPECT_EQ(found.family, "tiny");
  EXPECT_EQ(found.leaves, 3U);
  EXPECT_EQ(found.rules,
            (Lines{kScheme + "global/0", kScheme + "parts/mlp/0", kScheme + "layer/rules/0"}));
  EXPECT_TRUE(found.dropped.empty());
  EXPECT_TRUE(found.findings.empty());
  EXPECT_TRUE(found.notes.empty());
  MappingOptions separate = tiny_rules_alone();
  separate.stacked = false;
  const NameCheck apart = check_names(tiny_names(), separate);
  EXPECT_EQ(apart.leaves, 5U);
  EXPECT_EQ(apart.rules, found.rules);
}

TEST(CheckNames, LeavesOfFillsAndNotesOfTheSchemeAreIncluded) {
  const std::string text = tiny_family_with(
      "\"parts\"", R"("notes": [["two layers", "L == 2"], ["three layers", "L == 3"]],
                      "fill": [[1, "ones.scale [D]", {"dtype": "f32"}]], "parts")");
  const NameCheck found = check_names(tiny_names(), with_family(text));
  EXPECT_EQ(found.leaves, 4U);
  EXPECT_EQ(found.notes, Lines{"two layers"});
}

TEST(CheckNames, MissingNamesHaveTheirRuleAndOthersNone) {
  NameList list = tiny_names();
  std::erase(list.names, "layers.1.up.weight");
  add_name(list, "layers.1.upper.weight");
  EXPECT_EQ(finding_lines(check_names(list, tiny_rules_alone()).findings),
            (Lines{"layers.1.up.weight: the index lacks a tensor that the rule needs by " +
                       kScheme + "parts/mlp/0",
                   "layers.1.upper.weight: neither a rule nor a drop matches the name by "}));
}

TEST(CheckNames, ADropTakesTheNamesThatItsGlobMatches) {
  NameList list = tiny_names();
  for (const char* name : {"old", "old.a", "old.b"}) add_name(list, name);
  const NameCheck globs = check_names(list, tiny_rules_alone());
  EXPECT_EQ(finding_lines(globs.dropped),
            (Lines{"old.a: unused by tiny.json#/drop/0", "old.b: unused by tiny.json#/drop/0"}));
  EXPECT_EQ(finding_lines(globs.findings),
            Lines{"old: neither a rule nor a drop matches the name by "});
  const NameCheck plain = check_names(list, with_family(tiny_family_with("old.*", "old.a")));
  EXPECT_EQ(finding_lines(plain.dropped), Lines{"old.a: unused by tiny.json#/drop/0"});
  EXPECT_EQ(plain.findings.size(), 2U);
}

TEST(CheckNames, LayersThatAreLeftOutHaveNoOtherReason) {
  NameList list = tiny_names();
  add_name(list, "layers.1.other");
  MappingOptions options = with_family(tiny_family_with("old.*", "*.other"));
  options.num_layers = 1;
  const NameCheck found = check_names(list, options);
  EXPECT_TRUE(found.findings.empty());
  EXPECT_EQ(found.leaves, 3U);
  ASSERT_EQ(found.dropped.size(), 4U);
  for (const CheckFinding& drop : found.dropped) {
    EXPECT_TRUE(drop.tensor.starts_with("layers.1.")) << drop.tensor;
    EXPECT_EQ(drop.rule, "--num-layers");
    EXPECT_EQ(drop.what, "layer 1 is left out (--num-layers 1)");
  }
}

// Both groups have layers, of which one is within the other's.
TEST(CheckNames, ANameInLayersOfTwoGroupsIsLeftOutOnce) {
  const std::string text = tiny_family_with(
      R"("layer": {)",
      R"("sub": {"for": {"l": "L"}, "hf": "layers.{l}.sub.", "stacked": ["decoder.sub.", "l"],
                 "separate": "decoder.sub_{l}.", "rules": [["w [D]", "w.scale [D]"]]},
         "layer": {)");
  NameList list = tiny_names();
  for (const char* layer : {"0", "1"}) add_name(list, fmt::format("layers.{}.sub.w", layer));
  MappingOptions options = with_family(text);
  EXPECT_EQ(check_names(list, options).leaves, 4U);
  options.num_layers = 1;
  const NameCheck found = check_names(list, options);
  EXPECT_TRUE(found.findings.empty());
  EXPECT_EQ(found.dropped.size(), 4U);
  EXPECT_EQ(std::ranges::count(found.dropped, "layers.1.sub.w", &CheckFinding::tensor), 1);
}

TEST(CheckNames, RequirementsHoldUnlessTheyArePassedOver) {
  std::string text = tiny_family_with(
      "\"global\"", R"("require": [["L == 3", "three layers belong together"]], "global")");
  const auto check = [&](Requirements requirements) {
    return check_names(tiny_names(), with_family(text), requirements);
  };
  EXPECT_EQ(catch_error([&] { check(Requirements::hold); }).sentence(),
            "three layers belong together");
  EXPECT_EQ(check(Requirements::are_passed_over).leaves, 3U);
  text = tiny_family_with("\"use\"",
                          R"("require": [["L == 3", "three layers belong together"]], "use")");
  EXPECT_EQ(catch_error([&] { check(Requirements::hold); }).code(), ErrorCode::unsupported);
  EXPECT_TRUE(check(Requirements::are_passed_over).findings.empty());
}

TEST(CheckNames, NamesOfCodesStandForTheirWeightAndUseTheirScales) {
  NameList list = tiny_names();
  const std::string up = "layers.1.up.weight";
  std::erase(list.names, up);
  for (const char* end : {"_packed", "_scale", "_zero_point", "_shape"}) add_name(list, up + end);
  const NameCheck found = check_names(list, tiny_rules_alone());
  EXPECT_TRUE(found.findings.empty());
  EXPECT_EQ(finding_lines(found.dropped),
            Lines{up + "_shape: the tensor that is decoded has its shape by " +
                  std::string(kBesideCodes)});
}

TEST(CheckNames, AnUnknownQuantizationCountsOnlyWithNamesOfCodes) {
  NameList list = tiny_names();
  list.config_text =
      R"({"model_type": "tiny", "hidden_size": 7, "num_hidden_layers": 2,
          "quantization_config": {"quant_method": "awq"}})";
  EXPECT_TRUE(check_names(list, tiny_rules_alone()).findings.empty());
  add_name(list, "layers.1.up.qweight");
  const Error error = catch_error([&] { check_names(list, tiny_rules_alone()); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "the checkpoint is quantized with AWQ, which can't be decoded");
  EXPECT_EQ(error.file(), "dir/config.json");
}

TEST(CheckNames, OptionsAndSchemesAreThoseOfTheFamily) {
  MappingOptions options = tiny_rules_alone();
  options.options["vocab"] = "9";
  EXPECT_EQ(catch_error([&] { check_names(tiny_names(), options); }).sentence(),
            "family \"tiny\" has no option \"vocab\"");
  options = tiny_rules_alone();
  options.scheme = "torchtitan";
  const Error error = catch_error([&] { check_names(tiny_names(), options); });
  EXPECT_EQ(error.sentence(), "family \"tiny\" has no scheme \"torchtitan\"");
  EXPECT_EQ(error.hint_text(), "its schemes are hf, maxtext");
}

TEST(CheckNames, TensorsOfACatalogHaveTheShapesOfTheirRules) {
  FakeCatalog catalog;
  catalog.config_text = tiny_names().config_text;
  for (const std::string& name : tiny_names().names)
    catalog.add(name, name == "norm.weight" ? Shape{7} : Shape{5, 7});
  const NameCheck found = check_names(catalog, tiny_rules_alone());
  EXPECT_TRUE(found.findings.empty());
  EXPECT_EQ(found.leaves, 3U);
  catalog.get("layers.1.experts.1.weight").shape = {5, 8};
  const Error error = catch_error([&] { check_names(catalog, tiny_rules_alone()); });
  EXPECT_EQ(error.sentence(),
            "hidden_size in config.json is 7, and the tensor has 8 (5x8), which is larger");
  EXPECT_EQ(error.tensor(), "layers.1.experts.1.weight");
  EXPECT_EQ(error.rule(), kScheme + "layer/rules/0");
}

// Whether a tensor exists decides conditions of rules.
TEST(CheckNames, ATensorExistsByItsNameOrTheNameOfItsCodes) {
  const std::string text = tiny_family_with(
      R"("norm.scale [D]")", R"x("norm.scale [D]", {"when": "exists('norm.weight')"})x");
  NameList list = tiny_names();
  EXPECT_EQ(check_names(list, with_family(text)).leaves, 3U);
  std::erase(list.names, "norm.weight");
  const NameCheck without = check_names(list, with_family(text));
  EXPECT_EQ(without.leaves, 2U);
  EXPECT_TRUE(without.findings.empty());
  for (const char* name : {"norm.weight_packed", "norm.weight_scale"}) add_name(list, name);
  const NameCheck coded = check_names(list, with_family(text));
  EXPECT_EQ(coded.leaves, 3U);
  EXPECT_TRUE(coded.findings.empty());
}

}  // namespace
}  // namespace hfshard
