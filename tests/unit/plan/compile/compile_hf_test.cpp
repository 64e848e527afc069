#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(CompileHf, KeepsNamesShapesAndDtypes) {
  FakeCatalog catalog;
  catalog.add("a.b.weight", {3, 4}, DType::f8_e4m3).add("a.b.bias", {0}).add("scalar", {});
  const CompiledModel model = compile_model(catalog, hf_names());
  EXPECT_EQ(model.family, "hf");
  EXPECT_EQ(model.rules.size(), 1U);
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[0].name, "a.b.bias");
  EXPECT_EQ(model.leaves[1].name, "a.b.weight");
  EXPECT_EQ(model.leaves[1].shape, (Shape{3, 4}));
  EXPECT_EQ(model.leaves[1].dtype, DType::f8_e4m3);
  EXPECT_EQ(model.leaves[1].axis(1), "");
  EXPECT_FALSE(model.leaves[1].is_stacked(0));
  EXPECT_EQ(model.leaves[2].shape.rank(), 0U);
  EXPECT_EQ(model.transfers[1].map.digits, (DigitList{{3, 4, 4}, {4, 1, 1}}));
}

TEST(CompileSame, AxesOfTheUserReplaceThoseOfAKnownLeaf) {
  FakeCatalog catalog;
  catalog.add("a", {3, 4}).add("b", {3, 4}).add("c", {4, 3});
  SameOptions same;
  for (const char* name : {"a", "b", "c"}) {
    Leaf& leaf = same.known.emplace_back();
    leaf.name = name;
    leaf.shape = {3, 4};
    leaf.axes = {"layers", "embed"};
    leaf.stacked = {true, false};
  }
  same.axes = {parse_axes("b=embed,mlp")};
  const CompiledModel model = compile_same(catalog, hf_names(), same);
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[0].axes, (std::vector<std::string>{"layers", "embed"}));
  EXPECT_EQ(model.leaves[0].stacked, (std::vector<bool>{true, false}));
  EXPECT_EQ(model.leaves[1].axes, (std::vector<std::string>{"embed", "mlp"}));
  EXPECT_TRUE(model.leaves[1].stacked.empty());
  EXPECT_TRUE(model.leaves[2].axes.empty()) << "it has another shape";
}

TEST(CompileSame, GlobsAreForObjectsToo) {
  FakeCatalog catalog;
  catalog.objects.emplace_back().name = "lr";
  MappingOptions options = hf_names();
  EXPECT_TRUE(compile_same(catalog, options, {}).leaves.empty()) << "an object alone is enough";
  options.exclude = {"lr"};
  EXPECT_EQ(catch_error([&] { compile_same(catalog, options, {}); }).code(), ErrorCode::bad_input);
  catalog.add("a", {3});
  EXPECT_EQ(compile_same(catalog, options, {}).leaves.size(), 1U);
  TreeStructure structure;
  structure.entries.emplace_back().path = "empty";
  structure.entries.back().kind = TreeEntry::Kind::empty;
  catalog.structure = std::make_shared<const TreeStructure>(structure);
  options.exclude = {"empty"};
  EXPECT_EQ(compile_same(catalog, options, {}).leaves.size(), 1U);
  options.exclude = {"rl"};
  EXPECT_EQ(catch_error([&] { compile_same(catalog, options, {}); }).code(), ErrorCode::usage);
}

// A search for the name of a leaf ends at the next known one.
TEST(CompileSame, ALeafThatIsNotKnownTakesNoAxesOfAnother) {
  FakeCatalog catalog;
  catalog.add("a", {3, 4}).add("z", {3, 4});
  SameOptions same;
  Leaf& leaf = same.known.emplace_back();
  leaf.name = "b";
  leaf.shape = {3, 4};
  leaf.axes = {"layers", "embed"};
  const CompiledModel model = compile_same(catalog, hf_names(), same);
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_TRUE(model.leaves[0].axes.empty());
  EXPECT_TRUE(model.leaves[1].axes.empty());
}

TEST(CompileSame, ArraysWithoutOtherAxesKeepThoseOfTheirMesh) {
  FakeCatalog catalog;
  catalog.add("a", {3, 4}).add("b", {3, 4}).add("c", {3, 4});
  catalog.shardings.push_back({{{}, {"x", "y"}}});
  catalog.shardings.push_back({{{"x"}, {}}});
  catalog.shardings.push_back({});
  SameOptions same;
  same.axes = {parse_axes("b=embed,mlp")};
  const CompiledModel model = compile_same(catalog, hf_names(), same);
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[0].axes, (std::vector<std::string>{"", "mesh:x+y"}));
  EXPECT_EQ(model.leaves[1].axes, (std::vector<std::string>{"embed", "mlp"}));
  EXPECT_TRUE(model.leaves[2].axes.empty());
}

TEST(CompileSame, AxesHaveAGlobAndOneNameForEachDimension) {
  const AxesOf axes = parse_axes("a=b.*=embed,,mlp");
  EXPECT_EQ(axes.glob, "a=b.*");
  EXPECT_EQ(axes.axes, (std::vector<std::string>{"embed", "", "mlp"}));
  EXPECT_TRUE(parse_axes("scalar=").axes.empty());
  for (const char* text : {"embed,mlp", "=embed", ""})
    EXPECT_EQ(catch_error([&] { parse_axes(text); }).code(), ErrorCode::usage) << text;
  FakeCatalog catalog;
  catalog.add("a", {3, 4});
  SameOptions same;
  same.axes = {parse_axes("a=embed")};
  const Error error = catch_error([&] { compile_same(catalog, hf_names(), same); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), "a");
}

TEST(CompileHf, ATensorWithoutElementsComesBack) {
  FakeCatalog catalog;
  catalog.add("bias", {0}).add("weight", {0, 4}).add("scalar", {});
  const CompiledModel forward = compile_model(catalog, hf_names());
  const Catalog tree = tensors_of({forward.leaves.begin(), forward.leaves.end()}, "", catalog);
  const CompiledModel back = compile_inverse(forward, catalog, tree, hf_names());
  EXPECT_TRUE(back.drops.empty());
  ASSERT_EQ(back.transfers.size(), 3U);
  for (const Transfer& transfer : back.transfers) {
    const Leaf& leaf = back.leaves[transfer.target];
    EXPECT_EQ(transfer.map.count(), leaf.shape.numel()) << leaf.name;
  }
}

TEST(CompileHf, ACastThatNothingComputesIsRefused) {
  FakeCatalog catalog;
  catalog.add("ids", {3}, DType::i64).add("weight", {3});
  MappingOptions options = hf_names();
  options.casts = {{"weight", DType::f8_e4m3}};
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "hfshard can't cast bf16 to f8_e4m3");
  EXPECT_EQ(error.tensor(), "weight");
  options.casts = {{"weight", DType::f32}};
  EXPECT_EQ(compile_model(catalog, options).leaves.at(1).dtype, DType::f32);
  options.casts = {{"*", DType::f32}};
  EXPECT_EQ(compile_model(catalog, options).leaves.at(1).dtype, DType::f32) << "not for the ids";
  options.casts = {{"ids", DType::f32}};
  const Error integers = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(integers.code(), ErrorCode::usage);
  EXPECT_EQ(integers.sentence(), "--cast ids=f32 doesn't match any float array: \"ids\" is i64");
  catalog.add("ids2", {3}, DType::i32);
  options.casts = {{"ids*", DType::f32}};
  EXPECT_EQ(catch_error([&] { compile_model(catalog, options); }).sentence(),
            "--cast ids*=f32 doesn't match any float array: \"ids\" is i64");
}

TEST(CompileHf, ANameThatIsThePrefixOfAnotherIsRefused) {
  FakeCatalog catalog;
  catalog.add("a.b", {3}).add("a.b-x", {3}).add("a.b.c", {3});
  const Error error = catch_error([&] { compile_model(catalog, hf_names()); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "a.b");
  MappingOptions options = hf_names();
  options.exclude = {"a.b"};
  EXPECT_EQ(compile_model(catalog, options).leaves.size(), 2U);
  EXPECT_NO_THROW(compile_model(FakeCatalog().add("a.b", {3}).add("a.bc.d", {3}), hf_names()));
}

TEST(CompileHf, NamesThatAreNoPathsAreRefused) {
  for (const char* name : {"a..b", ".a", "a.", "", "a/b.c"}) {
    SCOPED_TRACE(name);
    const Error error =
        catch_error([&] { compile_model(FakeCatalog().add(name, {3}), hf_names()); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), name);
  }
}

TEST(CompileHf, TakesNoOptionsAndNeedsNoConfig) {
  MappingOptions options = hf_names();
  options.options["vocab"] = "3";
  EXPECT_EQ(catch_error([&] { compile_model(FakeCatalog().add("a", {3}), options); }).code(),
            ErrorCode::usage);
  EXPECT_EQ(compile_model(FakeCatalog().add("a", {3}), hf_names()).leaves.size(), 1U);
}

TEST(CompileHf, AGlobThatMatchesNothingAndNothingLeftAreErrors) {
  const auto code = [](const std::vector<std::string>& include,
                       const std::vector<std::string>& exclude) {
    MappingOptions options = hf_names();
    options.include = include;
    options.exclude = exclude;
    return catch_error([&] { compile_model(FakeCatalog().add("aa", {3}).add("b", {3}), options); })
        .code();
  };
  EXPECT_EQ(code({"a*", "c*"}, {}), ErrorCode::usage);
  EXPECT_EQ(code({}, {"aa", "bb"}), ErrorCode::usage);
  EXPECT_EQ(code({}, {"*"}), ErrorCode::bad_input);
  EXPECT_EQ(code({"a*"}, {"aa"}), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { compile_model(FakeCatalog(), hf_names()); }).code(),
            ErrorCode::bad_input);
}

TEST(CompileHf, NamesGetThePrefixWhichOtherSchemesRefuse) {
  MappingOptions options = hf_names();
  options.prefix = "model.";
  options.casts = {{"model.a.w", DType::f32}};
  const CompiledModel model = compile_model(FakeCatalog().add("a.w", {3}).add("b", {2}), options);
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[0].name, "model.a.w");
  EXPECT_EQ(model.leaves[0].dtype, DType::f32);
  EXPECT_EQ(model.leaves[1].name, "model.b");
  options.scheme = "maxtext";
  EXPECT_EQ(catch_error([&] { compile_model(FakeCatalog().add("a", {3}), options); }).code(),
            ErrorCode::usage);
}

constexpr const char* kPackedExperts = "model.layers.0.mlp.experts.down_proj";

// Adds codes of MXFP4 with their scales.
void add_packed_experts(FakeCatalog& catalog) {
  const std::string name = kPackedExperts;
  catalog.add(name + "_blocks", {3, 10, 2, 16}, DType::u8)
      .add(name + "_scales", {3, 10, 2}, DType::u8);
}

// MXFP4 as transformers dequantizes it: without the suffix, with transposed experts.
TEST(CompileHf, PackedExpertsDecodeToTheTensorsOfTheModel) {
  FakeCatalog catalog;
  catalog.config_text = R"({"model_type": "gpt_oss"})";
  add_packed_experts(catalog);
  catalog.add("model.norm.weight", {10});
  EXPECT_EQ(compile_model(catalog, hf_names()).leaves.size(), 3U) << "codes, as stored";
  MappingOptions options = hf_names();
  options.dtype = DType::bf16;
  const CompiledModel model = compile_model(catalog, options);
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[0].name, kPackedExperts);
  EXPECT_EQ(model.leaves[0].shape, (Shape{3, 64, 10}));
  EXPECT_EQ(model.leaves[0].dtype, DType::bf16);
  const Transfer& transfer = model.transfers[0];
  ASSERT_NE(transfer.decode, nullptr);
  EXPECT_EQ(transfer.source_dtype, DType::f4);
  EXPECT_EQ(transfer.source_shape, (Shape{3, 10, 64}));
  EXPECT_EQ(transfer.map.digits, (DigitList{{3, 640, 640}, {64, 1, 10}, {10, 64, 1}}));
  catalog.add(kPackedExperts, {3}, DType::bf16);
  EXPECT_EQ(catch_error([&] { compile_model(catalog, options); }).code(), ErrorCode::bad_input);
}

// Blocks of a rank that no decoder has can't be decoded.
TEST(CompileHf, CodesThatStayAsStoredAreNotedIfADtypeIsAsked) {
  FakeCatalog catalog;
  catalog.config_text = R"({"model_type": "gpt_oss"})";
  catalog.add("odd_blocks", {10, 2, 16}, DType::u8).add("odd_scales", {10, 2}, DType::u8);
  MappingOptions options = hf_names();
  EXPECT_TRUE(compile_model(catalog, options).notes.empty());
  options.dtype = DType::bf16;
  EXPECT_EQ(compile_model(catalog, options).notes,
            std::vector<std::string>{"some codes stay as stored, whatever --dtype says"});
  catalog.get("odd_blocks").shape = {16};
  catalog.get("odd_scales").shape = {1};
  EXPECT_EQ(compile_model(catalog, options).notes,
            std::vector<std::string>{"some codes stay as stored, whatever --dtype says"});
}

TEST(CompileHf, TheConfigTellsOfCodesAsLongAsSomeStay) {
  const auto config_with = [](bool left) {
    FakeCatalog catalog;
    catalog.config_text =
        R"({"model_type": "gpt_oss", "quantization_config": {"quant_method": "mxfp4"}})";
    add_packed_experts(catalog);
    if (left) catalog.add("odd_blocks", {10, 2, 16}, DType::u8);
    if (left) catalog.add("odd_scales", {10, 2}, DType::u8);
    MappingOptions options = hf_names();
    options.dtype = DType::bf16;
    return compile_model(catalog, options).config_text;
  };
  EXPECT_EQ(config_with(true), "") << "the source's is right";
  EXPECT_EQ(parse_json(config_with(false), "c"), parse_json(R"({"model_type": "gpt_oss"})", "c"));
}

// Codes that stay are loaded with the scales of their activations.
TEST(CompileHf, TensorsBesideCodesStayAsLongAsSomeCodesDo) {
  FakeCatalog catalog;
  catalog.config_text = R"({"model_type": "gpt_oss"})";
  add_packed_experts(catalog);
  catalog.add("odd.input_scale", {}, DType::bf16);
  MappingOptions options = hf_names();
  options.dtype = DType::bf16;
  EXPECT_EQ(compile_model(catalog, options).drops.size(), 1U);
  catalog.add("odd_blocks", {10, 2, 16}, DType::u8).add("odd_scales", {10, 2}, DType::u8);
  const CompiledModel model = compile_model(catalog, options);
  EXPECT_TRUE(model.drops.empty());
  EXPECT_EQ(std::ranges::count(model.leaves, "odd.input_scale", &Leaf::name), 1);
}

TEST(CompileHf, AConfigLosesTheQuantizationOfItsTextPartToo) {
  const Json config = parse_json(
      R"({"text_config": {"quantization_config": {"quant_method": "fp8"}, "vocab_size": 5}})", "c");
  EXPECT_EQ(without_quantization(config), parse_json(R"({"text_config": {"vocab_size": 5}})", "c"));
}

TEST(CompileHf, PackedIntegersAreTheirWeightAndTheirShapeIsDropped) {
  MappingOptions options = hf_names();
  options.dtype = DType::bf16;
  const std::string name = "model.layers.1.mlp.experts.0.up_proj.weight";
  const auto packed = [&](std::uint64_t words, std::uint64_t groups, const char* other = nullptr) {
    FakeCatalog catalog;
    catalog.config_text = R"({"model_type": "kimi_k2"})";
    if (other != nullptr) catalog.add(name + other, {1, 2}, DType::i32);
    catalog.add(name + "_packed", {5, words}, DType::i32).add(name + "_scale", {5, groups});
    catalog.add(name + "_shape", {2}, DType::i64);
    return compile_model(catalog, options);
  };
  const CompiledModel model = packed(8, 2);
  ASSERT_EQ(model.leaves.size(), 1U);
  EXPECT_EQ(model.leaves[0].name, name);
  EXPECT_EQ(model.leaves[0].shape, (Shape{5, 64}));
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(packed(8, 2, "_zero_point").transfers[0].decode->form.zeros, ZeroPoints::packed4);
  const Error error = catch_error([&] { packed(8, 2, "_g_idx"); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), name + "_g_idx");
  EXPECT_EQ(catch_error([&] { packed(5, 2); }).code(), ErrorCode::unsupported) << "a ragged group";
}

// Returns the leaves' model of packed integers, decoded.
CompiledModel decode_packed(const std::string& config, const Shape& words, const Shape& scales) {
  FakeCatalog catalog;
  catalog.config_text = config;
  catalog.add("m.q.weight_packed", words, DType::i32).add("m.q.weight_scale", scales);
  MappingOptions options = hf_names();
  options.dtype = DType::bf16;
  return compile_model(catalog, options);
}

TEST(CompileHf, PackedIntegersAreDecodedWithoutAConfig) {
  const CompiledModel model = decode_packed("", {5, 8}, {5, 2});
  ASSERT_EQ(model.leaves.size(), 1U);
  EXPECT_EQ(model.leaves[0].name, "m.q.weight");
  EXPECT_EQ(model.leaves[0].shape, (Shape{5, 64}));
  EXPECT_EQ(model.transfers.at(0).decode->form.col_block, 32U);
}

// The codes at the end of a row could be padding.
TEST(CompileHf, AGroupThatIsCutOffIsRefused) {
  EXPECT_EQ(decode_packed("", {130, 32}, {2, 2}).leaves.at(0).shape, (Shape{130, 256}));
  const Error error = catch_error([&] { decode_packed("", {130, 17}, {2, 2}); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.sentence(), "136 columns of packed integers in groups of 128");
  EXPECT_EQ(error.tensor(), "m.q.weight_packed");
}

TEST(CompileHf, ExcludedTensorsAreNamedDrops) {
  MappingOptions options = hf_names();
  options.include = {"a*"};
  options.exclude = {"ab"};
  const CompiledModel model =
      compile_model(FakeCatalog().add("aa", {3}).add("ab", {3}).add("b", {3}), options);
  EXPECT_EQ(model.leaves.size(), 1U);
  ASSERT_EQ(model.drops.size(), 2U);
  EXPECT_EQ(model.drops[0].why, "--exclude \"ab\"");
  EXPECT_EQ(model.drops[1].why, "not in --include");
}

TEST(CompileHf, TheRestOfAQuantizationIsTakenOutWithoutCodes) {
  const Json config = parse_json(R"({"quantization_config": {"quant_method": "fp8"}})", "c");
  const auto is_leftover = [&](const Shape& shape, DType dtype) {
    return without_leftover(config, FakeCatalog().add("m.weight", shape, dtype)).has_value();
  };
  EXPECT_TRUE(is_leftover({4, 4}, DType::bf16));
  EXPECT_TRUE(is_leftover({4, 4}, DType::boolean));
  EXPECT_TRUE(is_leftover({4}, DType::i64));
  EXPECT_TRUE(is_leftover({1, 4}, DType::i64)) << "positions";
  EXPECT_FALSE(is_leftover({2, 4}, DType::i32));
  EXPECT_FALSE(is_leftover({4, 4}, DType::f8_e4m3));
  EXPECT_EQ(without_leftover(parse_json(R"({"quantization_config": null})", "c"), FakeCatalog()),
            std::nullopt);
  NameList list;
  list.names = {"m.weight"};
  EXPECT_EQ(without_leftover(config, list), parse_json("{}", "c"));
  list.names = {"m.weight", "m.weight_scale"};
  EXPECT_EQ(without_leftover(config, list), std::nullopt);
}

}  // namespace
}  // namespace hfshard
