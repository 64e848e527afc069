#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/there_and_back.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(InverseValue, UndoesBothConstants) {
  Value value;
  value.mul = 2.0F;
  value.add = 3.0F;
  EXPECT_EQ(inverse_value(value).mul, 0.5F);
  EXPECT_EQ(inverse_value(value).add, -1.5F);
  EXPECT_TRUE(both_values(value, inverse_value(value)).empty());
  Value both;
  both.mul = 4.0F;
  both.add = 9.0F;
  EXPECT_EQ(both_values(value, value), both);
}

TensorInfo& array_named(Catalog& tree, const char* name) {
  return *std::ranges::find(tree.tensors, name, &TensorInfo::name);
}

// The elements have no more digits than the checkpoint stores.
TEST(CompileInverse, ACheckpointMadeFromF64KeepsItsOwnDtype) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6}, DType::f64);
  const CompiledModel forward = compile_one("[\"norm.weight [D]\", \"norm.scale [D]\"]", catalog);
  Catalog tree = tree_of(forward);
  ASSERT_EQ(tree.tensors.size(), 1U);
  tree.tensors[0].dtype = DType::f32;
  const CompiledModel back = compile_inverse(forward, catalog, tree, hf_names());
  ASSERT_EQ(back.leaves.size(), 1U);
  EXPECT_EQ(back.leaves[0].dtype, DType::f32);
  catalog.get("norm.weight").dtype = DType::f32;
  tree.tensors[0].dtype = DType::bf16;
  EXPECT_EQ(compile_inverse(compile_one("[\"norm.weight [D]\", \"norm.scale [D]\"]", catalog),
                            catalog, tree, hf_names())
                .leaves.at(0)
                .dtype,
            DType::f32)
      << "any other dtype is the model's";
}

TEST(CompileInverse, OnlyTheFirstOfRepeatedElementsComesBack) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const auto [forward, back] = there_and_back(
      "[\"norm.weight [D]\", \"c.kernel [cyc D E]\", {\"repeat\": [\"cyc\", \"E\"], "
      "\"axes\": {\"cyc\": null, \"E\": null}}]",
      catalog);
  ASSERT_EQ(back.transfers.size(), 1U);
  EXPECT_EQ(back.transfers[0].map.src_base, 0U);
  EXPECT_EQ(back.transfers[0].map.digits, (DigitList{{6, 2, 1}}));
  std::uint64_t dropped = 0;
  for (const Drop& drop : back.drops) {
    EXPECT_EQ(drop.why, "repeats what is written");
    EXPECT_EQ(back.rules.at(drop.rule), forward.rules.at(forward.transfers[0].rule));
    dropped += drop.map.count();
  }
  EXPECT_EQ(dropped, 18U);
  EXPECT_TRUE(prove(tree_of(forward), back).empty());
}

TEST(CompileInverse, EachPartOfAnArrayIsComparedWithTheFirstOfItsOwnElements) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const auto [forward, back] = there_and_back(
      "[\"a.weight [D]\", \"c.kernel [0/2 cyc D]\", {\"repeat\": \"cyc\", \"axes\": {\"cyc\": "
      "null}}],"
      "[\"b.weight [D]\", \"c.kernel [1/2 cyc D]\", {\"repeat\": \"cyc\", \"axes\": {\"cyc\": "
      "null}}]",
      catalog);
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 2U);
  for (const std::uint64_t part : {0U, 1U}) {
    const IndexMap& map = back.claims->transfers[part].map;
    EXPECT_EQ(map.src_base, part * 12);
    EXPECT_EQ(map.dst_base, part * 12);
    EXPECT_EQ(map.digits, (DigitList{{2, 0, 6}, {6, 1, 1}}));
  }
}

TEST(CompileInverse, RepeatedElementsOfATensorThatIsLeftOutAreNotCompared) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const std::string twice = R"(, {"repeat": "cyc", "axes": {"cyc": null}}])";
  const CompiledModel forward =
      compile_one(R"(["a.weight [D]", "c.kernel [0/2 cyc D]")" + twice +
                      R"(, ["b.weight [D]", "c.kernel [1/2 cyc D]")" + twice,
                  catalog);
  MappingOptions options = hf_names();
  options.exclude = {"a.weight"};
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), options);
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 2U);
  EXPECT_EQ(back.claims->transfers[0].map.digits, (DigitList{{2, 6, 6}, {6, 1, 1}}))
      << "each one is itself";
  EXPECT_EQ(back.claims->transfers[1].map.digits, (DigitList{{2, 0, 6}, {6, 1, 1}}));
}

// The array is made of a tensor that another array has twice.
TEST(CompileInverse, ACopyIsComparedWithTheFirstOfRepeatedElements) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const auto [forward, back] = there_and_back(
      "[\"norm.weight [D]\", \"c.kernel [cyc D]\", {\"repeat\": \"cyc\", \"axes\": {\"cyc\": "
      "null}}], [\"norm.weight [D]\", \"d.scale [D]\", {\"copy\": true}]",
      catalog);
  ASSERT_NE(back.claims, nullptr);
  ASSERT_EQ(back.claims->transfers.size(), 2U);
  const Transfer& copy = back.claims->transfers[1];
  EXPECT_EQ(back.claims->leaves[copy.target].name, "params.d.scale");
  EXPECT_EQ(copy.sources, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(copy.map.src_base, 0U);
  EXPECT_EQ(copy.map.digits, (DigitList{{6, 1, 1}}));
}

TEST(CompileInverse, ACopyOfATensorThatIsLeftOutIsNotCompared) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("b.weight", {6});
  const CompiledModel forward = compile_one(
      "[\"a.weight [D]\", \"x.scale [D]\"], [\"b.weight [D]\", \"y.scale [D]\"],"
      "[\"a.weight [D]\", \"d.kernel [0/2 D]\", {\"copy\": true}],"
      "[\"b.weight [D]\", \"d.kernel [1/2 D]\", {\"copy\": true}]",
      catalog);
  Catalog tree = tree_of(forward);
  const auto compared_with = [&](const MappingOptions& options) {
    const CompiledModel back = compile_inverse(forward, catalog, tree, options);
    std::vector<std::string> out;
    for (const Transfer& transfer : back.claims->transfers)
      out.push_back(tree.tensors[transfer.sources.front()].name);
    return out;
  };
  EXPECT_EQ(compared_with(hf_names()),
            (std::vector<std::string>{"params.x.scale", "params.y.scale"}));
  std::erase_if(tree.tensors, [](const TensorInfo& each) { return each.name == "params.x.scale"; });
  MappingOptions options = hf_names();
  options.exclude = {"a.weight"};
  EXPECT_EQ(compared_with(options),
            (std::vector<std::string>{"params.d.kernel", "params.y.scale"}));
}

TEST(CompileInverse, ACopyOfADtypeThatNothingConvertsIsRefused) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const CompiledModel forward = compile_one(
      "[\"norm.weight [D]\", \"n.scale [D]\"],"
      "[\"norm.weight [D]\", \"c.scale [D]\", {\"copy\": true}]",
      catalog);
  Catalog tree = tree_of(forward);
  tree.wording.array = "array";
  MappingOptions keep = hf_names();
  keep.keep_dtype = true;
  array_named(tree, "params.n.scale").dtype = DType::f32;
  EXPECT_NE(compile_inverse(forward, catalog, tree, keep).claims, nullptr);
  array_named(tree, "params.n.scale").dtype = DType::i64;
  const Error error = catch_error([&] { compile_inverse(forward, catalog, tree, keep); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "params.c.scale");
  EXPECT_EQ(error.sentence(),
            "the array holds bf16 and its copy \"params.n.scale\" i64, which can't be compared");
  EXPECT_EQ(error.hint_text(), "pass --drop 'params.c.scale' to accept the loss");
}

TEST(CompileInverse, OnlyValuesThatComeBackAreNotedAsInexact) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const auto notes = [&](const std::string& rules) {
    return there_and_back(rules, catalog).back.notes;
  };
  const std::string thrice = "\"value\": {\"mul\": {\"expr\": 3, \"const_dtype\": \"f32\"}}";
  const std::vector<std::string> found =
      notes("[\"norm.weight [D]\", \"n.scale [D]\", {" + thrice + "}]");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_TRUE(found[0].starts_with("not exact: norm.weight and similar tensors were multiplied"));
  EXPECT_TRUE(notes("[\"norm.weight [D]\", \"n.scale [D]\"], [\"norm.weight [D]\", "
                    "\"c.scale [D]\", {\"copy\": true, " +
                    thrice + "}]")
                  .empty());
}

TEST(CompileInverse, APowerOfTwoIsInexactOnlyInF16) {
  const auto notes = [](const std::string& constant, DType dtype) {
    FakeCatalog catalog;
    catalog.add("norm.weight", {6}, dtype);
    return there_and_back("[\"norm.weight [D]\", \"n.scale [D]\", {\"value\": {" + constant +
                              ", \"const_dtype\": \"f32\"}}}]",
                          catalog)
        .back.notes;
  };
  const std::string twice = "\"mul\": {\"expr\": 2";
  EXPECT_EQ(notes(twice, DType::bf16), std::vector<std::string>{});
  EXPECT_EQ(notes(twice, DType::f16),
            std::vector<std::string>{
                "not exact: norm.weight and similar tensors were multiplied by 2 and rounded to "
                "f16; they return within 1 ulp, and subnormal values less exactly"});
  EXPECT_EQ(notes("\"add\": {\"expr\": 1", DType::bf16),
            std::vector<std::string>{
                "not exact below 2^-16: norm.weight and similar tensors had 1 added in bf16"});
}

// Two regions of one tensor were cut. Another tensor was dropped as equal to a whole one.
TEST(CompileInverse, ATwinOfAWholeTensorHasNoFills) {
  FakeCatalog catalog;
  catalog.add("a.weight", {6}).add("norm.weight", {6}).add("old.twin", {6});
  CompiledModel forward = compile_one(
      "[\"a.weight [D]\", \"a.scale [D]\"], [\"norm.weight [D]\", \"norm.scale [D]\"]", catalog);
  ASSERT_EQ(forward.drops.size(), 1U);
  forward.drops[0].same_as = 1;
  ASSERT_EQ(forward.leaves[0].name, "params.a.scale");
  forward.leaves[0].shape = {4};
  forward.transfers[0].map.digits = {{4, 1, 1}};
  for (const std::uint64_t at : {4U, 5U}) {
    Drop cut;
    cut.source = 0;
    cut.same_as = 1;
    cut.map = {at, 0, {{1, 1, 0}}};
    forward.drops.push_back(cut);
  }
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), hf_names());
  ASSERT_EQ(back.leaves.size(), 3U);
  ASSERT_EQ(back.fills.size(), 2U);
  for (const Fill& fill : back.fills) EXPECT_EQ(back.leaves[fill.target].name, "a.weight");
  EXPECT_EQ(back.notes,
            std::vector<std::string>{"filled with zeros, because it was cut when the checkpoint "
                                     "was made: part of a.weight"});
}

// A tree may lack what the user leaves out.
TEST(CompileInverse, AnArrayIsNeededIfAnyOfItsTensorsIsWanted) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6}).add("a.weight", {6}).add("b.weight", {6});
  const CompiledModel forward = compile_one(
      "[\"norm.weight [D]\", \"norm.scale [D]\"],"
      "[\"a.weight [D]\", \"c.kernel [0/2 cyc D]\", {\"repeat\": \"cyc\", \"axes\": {\"cyc\": "
      "null}}],"
      "[\"b.weight [D]\", \"c.kernel [1/2 cyc D]\", {\"repeat\": \"cyc\", \"axes\": {\"cyc\": "
      "null}}]",
      catalog);
  Catalog tree = tree_of(forward);
  std::erase_if(tree.tensors, [](const TensorInfo& each) {
    return each.name.find("c.kernel") != std::string::npos;
  });
  ASSERT_EQ(tree.tensors.size(), 1U);
  MappingOptions options = hf_names();
  options.exclude = {"a.weight", "b.weight"};
  const CompiledModel back = compile_inverse(forward, catalog, tree, options);
  ASSERT_EQ(back.leaves.size(), 1U);
  EXPECT_EQ(back.leaves[0].name, "norm.weight");
  EXPECT_TRUE(prove(tree, back).empty());
  for (const char* one : {"a.weight", "b.weight"}) {
    options.exclude = {one};
    EXPECT_EQ(catch_error([&] { compile_inverse(forward, catalog, tree, options); }).code(),
              ErrorCode::not_found);
    const CompiledModel half = compile_inverse(forward, catalog, tree_of(forward), options);
    EXPECT_NE(half.claims, nullptr) << "the other one is repeated";
  }
}

TEST(CompileInverse, ATensorOfArraysWithDifferentDtypesNeedsOne) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {12});
  const CompiledModel forward = compile_one(
      "[\"norm.weight [(D 0/2)]\", \"a.scale [D]\"], [\"norm.weight [(D 1/2)]\", \"b.scale "
      "[D]\"]",
      catalog);
  Catalog tree = tree_of(forward);
  MappingOptions keep = hf_names();
  keep.keep_dtype = true;
  EXPECT_EQ(compile_inverse(forward, catalog, tree, keep).leaves.at(0).dtype, DType::bf16);
  array_named(tree, "params.b.scale").dtype = DType::f32;
  EXPECT_EQ(compile_inverse(forward, catalog, tree, hf_names()).leaves.at(0).dtype, DType::bf16);
  const Error error = catch_error([&] { compile_inverse(forward, catalog, tree, keep); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "the tensor comes from arrays of different dtypes, bf16 and f32");
  EXPECT_EQ(error.tensor(), "norm.weight");
  EXPECT_NE(error.hint_text().find("--dtype bf16"), std::string::npos);
  keep.casts = {{"norm.weight", DType::f16}};
  EXPECT_EQ(compile_inverse(forward, catalog, tree, keep).leaves.at(0).dtype, DType::f16);
}

TEST(CompileInverse, ACastThatNothingComputesIsRefused) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const CompiledModel forward = compile_one("[\"norm.weight [D]\", \"norm.scale [D]\"]", catalog);
  const auto refusal = [&](DType stored) {
    Catalog tree = tree_of(forward);
    array_named(tree, "params.norm.scale").dtype = stored;
    const Error error = catch_error([&] { compile_inverse(forward, catalog, tree, hf_names()); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "norm.weight");
    return error.sentence();
  };
  EXPECT_EQ(refusal(DType::i64), "hfshard can't cast i64 to bf16");
  EXPECT_EQ(refusal(DType::f8_e4m3), "hfshard can't cast f8_e4m3 to bf16");
  catalog.add("norm.weight_scale", {}, DType::f32);
  EXPECT_EQ(refusal(DType::i64), "hfshard can't cast i64 to bf16");
  EXPECT_EQ(refusal(DType::f8_e4m3),
            "the tensor is stored as F8_E4M3 with the scales \"norm.weight_scale\", and an export "
            "can't decode them");
}

TEST(CompileInverse, OptimizerStateIsLeftOutAndOtherArraysAreRefused) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const CompiledModel forward = compile_one("[\"norm.weight [D]\", \"norm.scale [D]\"]", catalog);
  const auto back = [&](const char* other, const char* second = nullptr) {
    FakeCatalog tree;
    tree.tensors = tree_of(forward).tensors;
    tree.add(other, {6}, DType::f32);
    if (second != nullptr) tree.add(second, {6}, DType::f32);
    return compile_inverse(forward, catalog, tree, hf_names());
  };
  const CompiledModel model = back("opt_state.mu.norm.scale");
  EXPECT_EQ(model.leaves.size(), 1U);
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(model.drops[0].why, "no parameter of the model");
  const Error error = catch_error([&] { back("average.norm.scale"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.tensor(), "average.norm.scale");
  EXPECT_EQ(error.hint_text(),
            "pass --drop 'average.*' to accept the loss, or --root average to convert only what is "
            "below it");
  EXPECT_EQ(catch_error([&] { back("average"); }).hint_text(),
            "pass --drop 'average' to accept the loss");
  EXPECT_EQ(catch_error([&] { back("params.other.scale"); }).hint_text(),
            "pass --drop 'params.other.scale' to accept the loss");
  EXPECT_EQ(catch_error([&] { back("average.norm.scale", "lonely"); }).hint_text(),
            "pass --drop 'average.*' --drop 'lonely' to accept the loss");
}

TEST(CompileInverse, ACounterIsLeftOutAndAFloatIsRefused) {
  FakeCatalog catalog;
  catalog.add("norm.weight", {6});
  const CompiledModel forward = compile_one("[\"norm.weight [D]\", \"norm.scale [D]\"]", catalog);
  const auto back = [&](DType dtype) {
    FakeCatalog tree;
    tree.tensors = tree_of(forward).tensors;
    tree.add("seen.tokens", {}, dtype);
    return compile_inverse(forward, catalog, tree, hf_names());
  };
  for (const DType dtype : {DType::i64, DType::i32, DType::u8, DType::boolean}) {
    const CompiledModel model = back(dtype);
    EXPECT_EQ(model.leaves.size(), 1U);
    ASSERT_EQ(model.drops.size(), 1U);
    EXPECT_EQ(model.drops[0].why, "no parameter of the model");
  }
  EXPECT_EQ(catch_error([&] { back(DType::f32); }).tensor(), "seen.tokens");
}

// The head is a copy of the embedding, and so are the rows that were cut.
TEST(CompileInverse, ATwinHasTheFillsOfItsTwin) {
  FakeCatalog catalog =
      FakeCatalog::of("qwen3", example_config("qwen3", {{"tie_word_embeddings", true}}));
  catalog.add("lm_head.weight", {22, 26});
  MappingOptions cut;
  cut.options = {{"vocab", "20"}};
  const CompiledModel forward = compile_model(catalog, cut);
  MappingOptions names = hf_names();
  names.flat_names = true;
  const CompiledModel back = compile_inverse(forward, catalog, tree_of(forward), names);
  std::vector<std::string> filled;
  for (const Fill& fill : back.fills) {
    filled.push_back(back.leaves[fill.target].name);
    EXPECT_EQ(fill.map.dst_base, 20U * 26);
    EXPECT_EQ(fill.map.count(), 2U * 26);
    EXPECT_EQ(fill.scalar, 0.0);
  }
  std::ranges::sort(filled);
  EXPECT_EQ(filled, (std::vector<std::string>{"lm_head.weight", "model.embed_tokens.weight"}));
  names.exclude = {"lm_head.weight"};
  const CompiledModel without = compile_inverse(forward, catalog, tree_of(forward), names);
  EXPECT_EQ(std::ranges::count(without.leaves, "lm_head.weight", &Leaf::name), 0);
  names.exclude = {"model.embed_tokens.weight"};
  const CompiledModel neither = compile_inverse(forward, catalog, tree_of(forward), names);
  EXPECT_EQ(std::ranges::count(neither.leaves, "lm_head.weight", &Leaf::name), 0);
}

TEST(CompileInverse, ScalesOfDecodedTensorsAreNotNotedAsMissing) {
  const auto notes = [](bool coded) {
    FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3"));
    const std::string name = "model.layers.1.mlp.gate_proj.weight";
    if (coded) {
      catalog.get(name).dtype = DType::f8_e4m3;
      catalog.add(name + "_scale", {}, DType::f32);
    }
    const CompiledModel forward = compile_model(catalog, {});
    MappingOptions names = hf_names();
    names.flat_names = true;
    return compile_inverse(forward, catalog, tree_of(forward), names).notes;
  };
  EXPECT_EQ(notes(true), notes(false));
  EXPECT_TRUE(notes(true).empty());
}

TEST(CompileInverse, ScalesAreNotCastWithoutTheirCodes) {
  FakeCatalog catalog;
  catalog.add("m.q.weight", {4, 4}, DType::f8_e4m3).add("m.q.weight_scale", {4}, DType::f32);
  catalog.add("m.q.bias", {4}, DType::f32);
  const CompiledModel forward = compile_model(catalog, hf_names());
  const auto back = [&](const char* glob, const char* exclude = nullptr) {
    MappingOptions options = hf_names();
    if (exclude != nullptr) options.exclude = {exclude};
    options.casts = {{glob, DType::bf16}};
    return compile_inverse(forward, catalog, tree_of(forward), options);
  };
  const Error error = catch_error([&] { back("*_scale"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "m.q.weight_scale");
  EXPECT_EQ(error.hint_text(), "leave out --dtype and --cast to keep both");
  EXPECT_EQ(back("*.bias").leaves.size(), 3U);
  EXPECT_EQ(back("*.bias", "*.q.weight").leaves.size(), 2U);
}

TEST(DropHint, NamesEightTensorsAndCountsTheRest) {
  std::vector<std::string> names;
  std::string flags;
  for (int i = 0; i < 8; ++i) {
    names.push_back(fmt::format("t{}", i));
    flags += fmt::format(" --drop 't{}'", i);
  }
  EXPECT_EQ(drop_hint({}, names), "pass" + flags + " to accept the loss");
  names.emplace_back("t8");
  EXPECT_EQ(drop_hint({}, names), "pass" + flags + " and 1 more to accept the loss");
}

TEST(DropHint, NamesUntieForAHeadOutsideOfLayers) {
  const std::string untie = "pass --untie to keep the output head next to the embedding, or ";
  EXPECT_EQ(drop_hint({}, {"a.head.weight"}, true),
            untie + "--drop 'a.head.weight' to accept the loss");
  MappingOptions untied;
  untied.untie = true;
  EXPECT_EQ(drop_hint(untied, {"a.head.weight"}, true),
            "pass --drop 'a.head.weight' to accept the loss");
  EXPECT_EQ(drop_hint({}, {"layers.0.head.weight"}, true),
            "pass --drop 'layers.0.head.weight' to accept the loss");
}

TEST(Claims, AnArrayThatTheyCoverInPartIsRefused) {
  FakeCatalog catalog;
  catalog.add("a", {6});
  CompiledModel claims;
  Leaf& leaf = claims.leaves.emplace_back();
  leaf.name = "a";
  leaf.shape = {6};
  Transfer& transfer = claims.transfers.emplace_back();
  transfer.sources = {0};
  transfer.source_shape = {6};
  transfer.map.digits = {{6, 1, 1}};
  EXPECT_NO_THROW(check_claims_cover(claims, catalog));
  transfer.map.digits = {{5, 1, 1}};
  const Error error = catch_error([&] { check_claims_cover(claims, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_TRUE(error.sentence().ends_with("hfshard can't compare it with the output"));
}

}  // namespace
}  // namespace hfshard
