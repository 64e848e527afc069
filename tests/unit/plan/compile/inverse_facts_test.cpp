// Names, dtypes, reasons and notes of an export.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/there_and_back.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kNormAlone = R"(["norm.weight [D]", "norm.scale [D]"])";

FakeCatalog norm_alone() {
  FakeCatalog out;
  out.add("norm.weight", {6});
  return out;
}

TEST(InverseFacts, TheExportIsThatOfItsForwardModel) {
  const FakeCatalog catalog = norm_alone();
  CompiledModel forward = compile_one(kNormAlone, catalog);
  forward.family = "tiny";
  forward.config_text = R"({"cut": true})";
  for (const bool stacked : {false, true}) {
    forward.stacked = stacked;
    const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), hf_names());
    EXPECT_EQ(back.family, "tiny");
    EXPECT_EQ(back.scheme, "hf");
    EXPECT_EQ(back.stacked, stacked);
    EXPECT_EQ(back.config_text, forward.config_text);
    EXPECT_EQ(back.claims, nullptr);
    ASSERT_EQ(back.transfers.size(), 1U);
    EXPECT_EQ(back.rules.at(back.transfers[0].rule),
              "mappings/tiny.json#/schemes/maxtext/global/0");
  }
}

// The head was dropped as equal to the embedding.
TEST(InverseFacts, NamesHaveThePrefixAndATwinItsOwnCast) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("old.twin", {6});
  CompiledModel forward = compile_one(R"(["a.weight [D]", "a.scale [D]"])", catalog);
  ASSERT_EQ(forward.drops.size(), 1U);
  forward.drops[0].same_as = 0;
  MappingOptions options = hf_names();
  options.prefix = "model.";
  options.casts = {{"model.old.twin", DType::f32}};
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), options);
  ASSERT_EQ(back.leaves.size(), 2U);
  EXPECT_EQ(back.leaves[0].name, "model.a.weight");
  EXPECT_EQ(back.leaves[0].dtype, DType::bf16);
  EXPECT_EQ(back.leaves[1].name, "model.old.twin");
  EXPECT_EQ(back.leaves[1].dtype, DType::f32);
  ASSERT_EQ(back.transfers.size(), 2U);
  EXPECT_FALSE(back.transfers[0].copy);
  EXPECT_TRUE(back.transfers[1].copy);
  EXPECT_EQ(back.rules.at(back.transfers[1].rule), "mappings/tiny.json#/drop/0");
  EXPECT_EQ(back.left_out_leaves, 0U);
  EXPECT_TRUE(back.notes.empty());
}

TEST(InverseFacts, ATensorThatWasDecodedHasTheDtypeOfItsLeaf) {
  FakeCatalog catalog;
  catalog.add("m.q.weight", {4, 4}, DType::f8_e4m3).add("m.q.weight_scale", {}, DType::f32);
  MappingOptions decoded = hf_names();
  decoded.dtype = DType::bf16;
  const CompiledModel forward = compile_model(catalog, decoded);
  Catalog tree = tree_of(forward);
  ASSERT_EQ(tree.tensors.size(), 1U);
  tree.tensors[0].dtype = DType::f32;
  MappingOptions options = hf_names();
  EXPECT_EQ(compile_inverse(forward, catalog, tree, options).leaves.at(0).dtype, DType::bf16);
  options.keep_dtype = true;
  EXPECT_EQ(compile_inverse(forward, catalog, tree, options).leaves.at(0).dtype, DType::f32);
}

TEST(InverseFacts, EachDropHasItsReasonAndTheRuleBehindIt) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const CompiledModel forward = compile_one(
      R"(["a.weight [D]", "x.scale [D@0:D+F]"], ["a.weight [D]", "y.scale [D]", {"copy": true}],
         ["b.weight [D]", "z.scale [D]"]], "fill": [[1, "x.scale [F@D:D+F]"])",
      catalog);
  const Catalog tree = tree_of(forward);
  const auto reasons = [&](const MappingOptions& options) {
    const CompiledModel back = compile_inverse(forward, catalog, tree, options);
    std::vector<std::string> out;
    for (const Drop& drop : back.drops) {
      out.push_back(tree.tensors.at(drop.source).name + ": " + drop.why + " by " +
                    back.rules.at(drop.rule));
    }
    std::ranges::sort(out);
    return out;
  };
  const std::string scheme = " by mappings/tiny.json#/schemes/maxtext/";
  MappingOptions options = hf_names();
  options.exclude = {"b.weight"};
  EXPECT_EQ(reasons(options), (std::vector<std::string>{
                                  "params.x.scale: a fill" + scheme + "fill/0",
                                  "params.y.scale: a copy of what is written" + scheme + "global/1",
                                  "params.z.scale: --exclude \"b.weight\" by --exclude"}));
  options.drop = {"*.x.scale", "*.y.*"};
  EXPECT_EQ(reasons(options),
            (std::vector<std::string>{"params.x.scale: --drop \"*.x.scale\" by --drop",
                                      "params.y.scale: --drop \"*.y.*\" by --drop",
                                      "params.z.scale: --exclude \"b.weight\" by --exclude"}));
}

TEST(InverseFacts, AnAcceptedLossHasNoClaimAndOthersKeepTheirs) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const CompiledModel forward = compile_one(
      R"(["a.weight [D]", "w.scale [D]"], ["b.weight [D]", "x.scale [D@0:D+F]"],
         ["a.weight [D]", "y.scale [D]", {"copy": true}]], "fill": [[3, "x.scale [F@D:D+F]"])",
      catalog);
  const Catalog tree = tree_of(forward);
  MappingOptions options = hf_names();
  options.drop = {"*.y.scale"};
  const CompiledModel back = compile_inverse(forward, catalog, tree, options);
  ASSERT_NE(back.claims, nullptr);
  const CompiledModel& claims = *back.claims;
  ASSERT_EQ(claims.leaves.size(), 1U);
  EXPECT_EQ(claims.leaves[0].name, "params.x.scale");
  ASSERT_EQ(claims.transfers.size(), 1U);
  EXPECT_EQ(claims.transfers[0].target, 0U);
  EXPECT_EQ(claims.transfers[0].map.digits, (DigitList{{6, 1, 1}}));
  ASSERT_EQ(claims.fills.size(), 1U);
  EXPECT_EQ(claims.fills[0].target, 0U);
  EXPECT_EQ(claims.fills[0].scalar, 3.0);
  EXPECT_EQ(claims.fills[0].map.dst_base, 6U);
  EXPECT_EQ(claims.rules.at(claims.fills[0].rule), "mappings/tiny.json#/schemes/maxtext/fill/0");
  options.drop = {"*.y.scale", "*.x.scale"};
  EXPECT_EQ(compile_inverse(forward, catalog, tree, options).claims, nullptr);
}

// The claim undoes the values of the owner before it applies those of the copy.
TEST(InverseFacts, ACopyIsComparedThroughTheValuesOfBothRules) {
  const auto value = [](const std::string& owner, const std::string& copy) {
    const CompiledModel back =
        there_and_back("[\"norm.weight [D]\", \"n.scale [D]\"" + owner +
                           "], [\"norm.weight [D]\", \"c.scale [D]\", {\"copy\": true" + copy +
                           "}]",
                       norm_alone())
            .back;
    return back.claims->transfers.at(0).value;
  };
  const std::string twice = R"("value": {"mul": {"expr": 2, "const_dtype": "f32"}})";
  const std::string eight = R"("value": {"mul": {"expr": 8, "const_dtype": "f32"}})";
  const std::string one_more = R"("value": {"add": {"expr": 1, "const_dtype": "f32"}})";
  EXPECT_TRUE(value("", "").empty());
  EXPECT_EQ(value(", {" + twice + "}", ", " + eight).mul, 4.0F);
  EXPECT_EQ(value(", {" + twice + "}", "").mul, 0.5F);
  EXPECT_EQ(value("", ", " + one_more).add, 1.0F);
  EXPECT_EQ(value(", {" + one_more + "}", "").add, -1.0F);
  EXPECT_EQ(value(", {" + one_more + "}", ", " + twice).add, -2.0F);
  EXPECT_EQ(value(", {" + one_more + "}", ", " + twice).mul, 2.0F);
}

TEST(InverseFacts, ACopyOfOneOfSeveralTensorsIsComparedWithItsPlace) {
  FakeCatalog catalog;
  catalog.add("w.0.weight", {6}).add("w.1.weight", {6});
  const CompiledModel back =
      there_and_back(R"(["w.{e}.weight [D]", "x.scale [e D]", {"for": {"e": "E"},
                         "axes": {"e": null}}], ["w.1.weight [D]", "y.scale [D]", {"copy": true}])",
                     catalog)
          .back;
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 1U);
  EXPECT_EQ(back.claims->leaves.at(0).name, "params.y.scale");
  EXPECT_EQ(back.claims->transfers[0].map.src_base, 6U);
  EXPECT_EQ(back.claims->transfers[0].map.dst_base, 0U);
}

TEST(InverseFacts, ARuleOfSeveralTensorsIsNotedOnceAsInexact) {
  FakeCatalog catalog;
  catalog.add("w.0.weight", {6}).add("w.1.weight", {6}, DType::f32);
  const auto [forward, back] = there_and_back(
      R"(["w.{e}.weight [D]", "x.scale [e D]", {"for": {"e": "E"}, "axes": {"e": null},
          "dtype": "f32", "value": {"mul": {"expr": 3, "const_dtype": "f32"}}}])",
      catalog);
  EXPECT_EQ(forward.transfers.size(), 2U);
  EXPECT_EQ(back.notes,
            std::vector<std::string>{
                "not exact: w.0.weight and similar tensors were multiplied by 3 and rounded to "
                "f32; they return within 1 ulp"});
}

TEST(InverseFacts, TensorsThatTheUserLeavesOutAreCountedExceptTrainingState) {
  FakeCatalog catalog;
  catalog.add("a", {6}).add("b", {6}).add("c", {6}).add("optimizer.mu", {6});
  const CompiledModel forward = compile_model(catalog, hf_names());
  MappingOptions options = hf_names();
  options.exclude = {"b", "c", "optimizer.mu"};
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), options);
  EXPECT_EQ(back.leaves.size(), 1U);
  EXPECT_EQ(back.left_out_leaves, 2U);
  EXPECT_TRUE(back.notes.empty()) << "the user knows";
}

TEST(InverseFacts, TensorsThatTheTreeWasMadeWithoutAreNoted) {
  FakeCatalog catalog;
  for (const char* name : {"a", "b", "c", "d", "e"}) catalog.add(name, {6});
  const auto notes = [&](const std::vector<std::string>& without) {
    MappingOptions made = hf_names();
    made.exclude = without;
    const CompiledModel forward = compile_model(catalog, made);
    return compile_inverse(forward, catalog, tree_of(forward), hf_names()).notes;
  };
  const std::string begin = "not in this checkpoint, because they were left out when it was made: ";
  EXPECT_TRUE(notes({}).empty());
  EXPECT_EQ(notes({"b"}), std::vector<std::string>{begin + "1 of 5 tensors (b)"});
  EXPECT_EQ(notes({"b", "c", "d"}), std::vector<std::string>{begin + "3 of 5 tensors (b, c, d)"});
  EXPECT_EQ(notes({"a", "b", "c", "d"}),
            std::vector<std::string>{begin + "4 of 5 tensors (a, b, c, ...)"});
}

TEST(InverseFacts, PartsThatWereCutAreNotedOnceForEachTensor) {
  FakeCatalog catalog;
  catalog.add("a.weight", {12}).add("b.weight", {12});
  CompiledModel forward = compile_one(
      R"(["a.weight [(D 0/2)]", "a.scale [D]"], ["b.weight [(D 0/2)]", "b.scale [D]"])", catalog);
  for (const std::uint32_t tensor : {0U, 1U}) {
    for (const std::uint64_t half : {1U, 7U}) {
      Drop& cut = forward.drops.emplace_back();
      cut.source = tensor;
      cut.map = {half, 0, {{3, 2, 0}}};
    }
  }
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), hf_names());
  EXPECT_EQ(back.fills.size(), 4U);
  EXPECT_EQ(back.notes,
            std::vector<std::string>{"filled with zeros, because it was cut when the checkpoint "
                                     "was made: part of a.weight, b.weight"});
}

TEST(InverseFacts, AnArrayThatIsMissingOrHasAnotherShapeIsRefused) {
  const FakeCatalog catalog = norm_alone();
  const CompiledModel forward = compile_one(kNormAlone, catalog);
  Catalog tree = tree_of(forward);
  tree.location = "tree";
  tree.wording.array = "leaf";
  const auto refusal = [&] {
    return catch_error([&] { compile_inverse(forward, catalog, tree, hf_names()); });
  };
  tree.tensors[0].shape = {5};
  EXPECT_EQ(refusal().code(), ErrorCode::bad_input);
  EXPECT_EQ(refusal().sentence(), "the leaf has 5, and the model has 6");
  EXPECT_EQ(refusal().file(), "tree");
  EXPECT_EQ(refusal().tensor(), "params.norm.scale");
  EXPECT_EQ(refusal().hint_text(), "check that config.json belongs to this checkpoint's model");
  tree.tensors[0].shape = {6};
  tree.tensors[0].name = "params.other.scale";
  EXPECT_EQ(refusal().code(), ErrorCode::not_found);
  EXPECT_EQ(refusal().sentence(), "the checkpoint lacks a leaf with this name");
  EXPECT_EQ(refusal().tensor(), "params.norm.scale");
  EXPECT_EQ(refusal().hint_text(), "check that it has this model and layout (--layers)");
}

TEST(InverseFacts, ExcludeNamesTensorsOfTheModelAndDropArraysOfTheTree) {
  const FakeCatalog catalog = norm_alone();
  const CompiledModel forward = compile_one(kNormAlone, catalog);
  FakeCatalog tree;
  tree.tensors = tree_of(forward).tensors;
  tree.location = "tree";
  tree.add("ema.a", {2}).add("ema.b", {2});
  MappingOptions options = hf_names();
  const auto refusal = [&] {
    return catch_error([&] { compile_inverse(forward, catalog, tree, options); });
  };
  EXPECT_TRUE(refusal().sentence().ends_with("so its values would be lost; 1 other is similar"))
      << refusal().sentence();
  EXPECT_EQ(refusal().tensor(), "ema.a");
  options.exclude = {"ema.*"};
  EXPECT_EQ(refusal().code(), ErrorCode::usage);
  EXPECT_EQ(refusal().sentence(),
            "--exclude \"ema.*\" names what the checkpoint holds, but here it selects tensors of "
            "the output");
  EXPECT_EQ(refusal().hint_text(), "pass --drop 'ema.*' to leave them out");
  options.exclude = {"none.*"};
  EXPECT_EQ(refusal().sentence(), "--exclude \"none.*\" doesn't match any tensor");
  options.exclude = {};
  options.drop = {"ema.*"};
  const CompiledModel back = compile_inverse(forward, catalog, tree, options);
  ASSERT_EQ(back.drops.size(), 2U);
  for (const Drop& drop : back.drops) {
    EXPECT_EQ(drop.why, "--drop \"ema.*\"");
    EXPECT_EQ(back.rules.at(drop.rule), "--drop");
  }
  EXPECT_EQ(back.drops[1].map.count(), 2U);
}

TEST(InverseFacts, IncludeSelectsTensorsOfTheModelToo) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const CompiledModel forward =
      compile_one(R"(["a.weight [D]", "x.scale [D]"], ["b.weight [D]", "y.scale [D]"])", catalog);
  Catalog tree = tree_of(forward);
  tree.location = "tree";
  MappingOptions options = hf_names();
  options.include = {"b.*"};
  const CompiledModel back = compile_inverse(forward, catalog, tree, options);
  ASSERT_EQ(back.leaves.size(), 1U);
  EXPECT_EQ(back.leaves[0].name, "b.weight");
  ASSERT_EQ(back.drops.size(), 1U);
  EXPECT_EQ(back.drops[0].source, 0U);
  EXPECT_EQ(back.drops[0].why, "not in --include");
  EXPECT_EQ(back.rules.at(back.drops[0].rule), "--include");
  EXPECT_EQ(back.left_out_leaves, 1U);
  options.include = {"c.*"};
  const Error error = catch_error([&] { compile_inverse(forward, catalog, tree, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--include \"c.*\" doesn't match any tensor");
  EXPECT_EQ(error.file(), "tree");
}

TEST(InverseFacts, AStackWithAFillIsClaimedWithAllItsTensors) {
  FakeCatalog catalog;
  catalog.add("w.0.weight", {6}).add("w.1.weight", {6});
  const auto [forward, back] = there_and_back(
      R"(["w.{e}.weight [D]", "x.kernel [e D@0:D+F]", {"for": {"e": "E"}, "axes": {"e": null}}]],)"
      R"("fill": [[1, "x.kernel [E F@D:D+F]", {"axes": {"F": "embed"}}])",
      catalog);
  EXPECT_EQ(forward.transfers.size(), 1U);
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 1U);
  EXPECT_EQ(back.claims->transfers[0].map.count(), 12U);
  EXPECT_EQ(back.claims->fills.at(0).map.count(), 10U);
}

TEST(InverseFacts, ACopyOfATensorInTwoArraysIsComparedWithBoth) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {12});
  const auto [forward, back] = there_and_back(
      R"(["norm.weight [(D 0/2)]", "a.scale [D]"], ["norm.weight [(D 1/2)]", "b.scale [D]"],
         ["norm.weight [(D cyc)]", "c.scale [(D cyc)]", {"copy": true}])",
      catalog);
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 2U);
  for (const std::uint32_t half : {0U, 1U}) {
    const Transfer& claim = back.claims->transfers[half];
    EXPECT_EQ(claim.sources, (std::vector<std::uint32_t>{half}));
    EXPECT_EQ(claim.map.dst_base, half);
    EXPECT_EQ(claim.map.digits, (DigitList{{6, 1, 2}}));
  }
}

TEST(InverseValue, OneConstantIsUndoneAlone) {
  Value value;
  EXPECT_TRUE(inverse_value(value).empty());
  value.add = 3.0F;
  EXPECT_EQ(inverse_value(value).add, -3.0F);
  EXPECT_FALSE(inverse_value(value).mul);
  EXPECT_EQ(both_values({}, value), value);
  EXPECT_EQ(both_values(value, {}), value);
  value = {};
  value.mul = 4.0F;
  EXPECT_EQ(inverse_value(value).mul, 0.25F);
  EXPECT_FALSE(inverse_value(value).add);
  Value shifted;
  shifted.add = 3.0F;
  EXPECT_EQ(both_values(shifted, value).add, 12.0F) << "the second one is applied to the first";
  EXPECT_EQ(both_values(value, shifted).add, 3.0F);
}

}  // namespace
}  // namespace hfshard
