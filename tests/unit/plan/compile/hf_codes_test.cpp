// Codes in a model whose names stay.

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

MappingOptions names_with(std::optional<DType> dtype) {
  MappingOptions out;
  out.scheme = "hf";
  out.dtype = dtype;
  return out;
}

MappingOptions names_with_cast(const std::string& glob, DType dtype) {
  MappingOptions out = names_with({});
  Cast& cast = out.casts.emplace_back();
  cast.glob = glob;
  cast.dtype = dtype;
  return out;
}

Error hf_refusal(const Catalog& catalog, const MappingOptions& options) {
  return catch_error([&] { compile_model(catalog, options); });
}

// FP8 with one scale.
FakeCatalog float_codes() {
  return FakeCatalog()
      .add("m.q.weight", {4, 6}, DType::f8_e4m3)
      .add("m.q.weight_scale", {}, DType::f32)
      .add("m.q.bias", {4});
}

TEST(HfCodes, StayAsStoredWithoutADtype) {
  const CompiledModel model = compile_model(float_codes(), names_with({}));
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[1].dtype, DType::f8_e4m3);
  EXPECT_EQ(model.rules, std::vector<std::string>{"--scheme hf"});
  EXPECT_TRUE(model.notes.empty());
}

TEST(HfCodes, ADtypeDecodesThemAndUsesTheirScales) {
  const CompiledModel model = compile_model(float_codes(), names_with(DType::f32));
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[0].name, "m.q.bias");
  EXPECT_EQ(model.leaves[0].dtype, DType::f32);
  EXPECT_EQ(model.leaves[1].name, "m.q.weight");
  EXPECT_EQ(model.leaves[1].dtype, DType::f32);
  EXPECT_TRUE(model.drops.empty());
  const Transfer& transfer = model.transfers.at(1);
  ASSERT_NE(transfer.decode, nullptr);
  EXPECT_EQ(transfer.source_dtype, DType::f8_e4m3);
  EXPECT_EQ(transfer.decode->scales, (std::vector<std::uint32_t>{2}));
}

TEST(HfCodes, ACastOfTheirLeafDecodesThemAlone) {
  FakeCatalog catalog = float_codes();
  catalog.add("m.k.weight", {4, 6}, DType::f8_e4m3).add("m.k.weight_scale", {}, DType::f32);
  MappingOptions options = names_with_cast("app.m.q.weight", DType::f16);
  options.prefix = "app.";
  const CompiledModel model = compile_model(catalog, options);
  std::vector<std::string> found;
  for (const Leaf& leaf : model.leaves)
    found.push_back(leaf.name + " " + std::string(to_string(leaf.dtype)));
  EXPECT_EQ(found, (std::vector<std::string>{"app.m.k.weight f8_e4m3", "app.m.k.weight_scale f32",
                                             "app.m.q.bias bf16", "app.m.q.weight f16"}));
}

TEST(HfCodes, ScalesAreNotCastWithoutTheirCodes) {
  const Error error = hf_refusal(float_codes(), names_with_cast("*_scale", DType::bf16));
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "m.q.weight_scale");
  EXPECT_EQ(error.hint_text(), "decode both with --dtype bf16, or leave both out of --cast");
  EXPECT_EQ(compile_model(float_codes(), names_with_cast("*_scale", DType::f32)).leaves.size(), 3U)
      << "nothing changes";
  EXPECT_EQ(compile_model(float_codes(), names_with_cast("*.bias", DType::f32)).leaves[0].dtype,
            DType::f32);
}

TEST(HfCodes, PartsOfCodesWithoutADecoderAreNotCast) {
  FakeCatalog catalog;
  catalog.add("m.q.weight", {4, 6}, DType::i8).add("m.q.offset", {4}, DType::f32);
  const Error error = hf_refusal(catalog, names_with(DType::bf16));
  EXPECT_EQ(error.tensor(), "m.q.offset");
  EXPECT_EQ(error.sentence(),
            "the tensor belongs to \"m.q.weight\", whose codes stay as stored, and --dtype would "
            "change only this tensor");
  EXPECT_EQ(error.hint_text(),
            "leave out --dtype and --cast to keep the codes, or convert the unquantized model");
}

TEST(HfCodes, FloatsWithoutScalesAreNotDecoded) {
  FakeCatalog catalog;
  catalog.add("m.q.weight", {4, 6}, DType::f8_e4m3);
  const Error error = hf_refusal(catalog, names_with(DType::bf16));
  EXPECT_EQ(error.sentence(),
            "the tensor is stored as F8_E4M3, and hfshard doesn't know its scales");
  EXPECT_EQ(error.hint_text(),
            "leave out --dtype and --cast to keep the codes, or convert the unquantized model");
  const Error cast = hf_refusal(FakeCatalog().add("a", {3}), names_with_cast("a", DType::f8_e4m3));
  EXPECT_EQ(cast.hint_text(),
            "casts read f16, bf16, f32 and f64, and write f16, bf16 and f32; leave it out with "
            "--exclude");
}

TEST(HfCodes, CodesOfAnUnknownMethodAreNotCast) {
  FakeCatalog catalog;
  catalog.add("m.q.qweight", {4, 6}, DType::i32).add("norm", {4});
  EXPECT_EQ(compile_model(catalog, names_with({})).leaves.size(), 2U);
  for (const MappingOptions& options :
       {names_with(DType::f32), names_with_cast("norm", DType::f32)}) {
    const Error error = hf_refusal(catalog, options);
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.tensor(), "m.q.qweight");
    EXPECT_EQ(error.hint_text(),
              "convert the model that it was made from, or leave out --dtype and --cast to keep "
              "the codes");
    MappingOptions without = options;
    without.exclude = {"*.qweight"};
    EXPECT_EQ(compile_model(catalog, without).leaves.at(0).dtype, DType::f32);
  }
}

TEST(HfCodes, AnUnknownMethodOfTheConfigCountsWithCodesOnly) {
  FakeCatalog catalog;
  catalog.config_text = R"({"quantization_config": {"quant_method": "q7"}, "x": 1})";
  catalog.add("m.q.weight", {4, 6});
  const CompiledModel plain = compile_model(catalog, names_with(DType::f32));
  EXPECT_EQ(plain.notes,
            std::vector<std::string>{"no tensor is quantized, so quantization_config is left out "
                                     "of config.json"});
  EXPECT_EQ(parse_json(plain.config_text, "c"), parse_json(R"({"x": 1})", "c"));
  catalog.add("m.k.weight", {4, 6}, DType::i8);
  EXPECT_EQ(compile_model(catalog, names_with({})).config_text, "");
  const Error error = hf_refusal(catalog, names_with(DType::f32));
  EXPECT_EQ(error.sentence(),
            "the checkpoint is quantized with \"q7\", which hfshard doesn't know");
  EXPECT_EQ(error.file(), "fake/config.json");
  EXPECT_EQ(error.hint_text(),
            "convert the unquantized model, or leave out --dtype and --cast to keep the codes");
}

// Eight bits of a code in each byte of a word, as config.json says.
TEST(HfCodes, WordsHaveAsManyCodesAsTheConfigSays) {
  FakeCatalog catalog;
  catalog.config_text =
      R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "pack-quantized",
          "config_groups": {"a": {"weights": {"num_bits": 8, "type": "int"}}}}})";
  catalog.add("m.q.weight_packed", {4, 8}, DType::i32).add("m.q.weight_scale", {4, 1});
  catalog.add("m.q.weight_shape", {2}, DType::i64);
  const CompiledModel model = compile_model(catalog, names_with(DType::bf16));
  ASSERT_EQ(model.leaves.size(), 1U);
  EXPECT_EQ(model.leaves[0].name, "m.q.weight");
  EXPECT_EQ(model.leaves[0].shape, (Shape{4, 32}));
  EXPECT_EQ(model.transfers.at(0).source_shape, (Shape{4, 32}));
  EXPECT_EQ(model.transfers.at(0).decode->form.code, Code::uint8);
  ASSERT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(model.drops[0].states, (Shape{4, 32})) << "the stored shape is checked";
  EXPECT_EQ(parse_json(model.config_text, "c"), parse_json("{}", "c"));
}

TEST(HfCodes, PackedFloatsHaveTheNameOfTheirWeight) {
  FakeCatalog catalog;
  catalog.add("a.weight_packed", {4, 16}, DType::u8).add("a.weight_scale", {4, 2}, DType::f8_e4m3);
  catalog.add("a.weight_global_scale", {1}, DType::f32);
  catalog.add("b.weight", {4, 16}, DType::u8).add("b.weight_scale", {4, 1}, DType::u8);
  const CompiledModel model = compile_model(catalog, names_with(DType::bf16));
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[0].name, "a.weight");
  EXPECT_EQ(model.leaves[0].shape, (Shape{4, 32}));
  EXPECT_EQ(model.leaves[1].name, "b.weight");
  EXPECT_EQ(model.leaves[1].shape, (Shape{4, 32}));
  const Decode& factored = *model.transfers.at(0).decode;
  EXPECT_EQ(factored.factors, (std::vector<std::uint32_t>{*catalog.find("a.weight_global_scale")}));
  EXPECT_EQ(factored.form.factor, Factor::divides);
  EXPECT_TRUE(model.transfers.at(1).decode->factors.empty());
  EXPECT_TRUE(model.drops.empty());
}

TEST(HfCodes, ATensorWithTheNameOfTheValuesIsRefused) {
  FakeCatalog catalog;
  catalog.add("a.weight_packed", {4, 8}, DType::i32).add("a.weight_scale", {4, 2});
  catalog.add("a.weight", {4, 64});
  MappingOptions options = names_with(DType::f32);
  const Error error = hf_refusal(catalog, options);
  EXPECT_EQ(error.sentence(), "the source also has the tensor that \"a.weight_packed\" decodes to");
  EXPECT_EQ(error.tensor(), "a.weight");
  EXPECT_EQ(error.hint_text(), "leave one of them out with --exclude");
  options.exclude = {"a.weight_packed", "a.weight_scale"};
  EXPECT_EQ(compile_model(catalog, options).leaves.at(0).dtype, DType::f32);
}

// The modules of transformers compute with values.
TEST(HfCodes, ADialectDecodesThemWithoutBeingAsked) {
  FakeCatalog catalog = float_codes();
  catalog.config_text = dump_json(example_config("qwen3"));
  MappingOptions options = names_with({});
  options.dialect = "modules";
  const CompiledModel model = compile_model(catalog, options);
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[1].dtype, DType::bf16);
  options.keep_dtype = true;
  const Error error = hf_refusal(catalog, options);
  EXPECT_EQ(error.sentence(), "the tensor is quantized, and modules need values");
  EXPECT_EQ(error.tensor(), "m.q.weight");
  EXPECT_EQ(error.hint_text(), "pass --dtype bf16 or --dtype f32 to decode it");
}

TEST(HfCodes, OtherTensorsOfTheModuleAreCastIfTheCodesAreDecoded) {
  FakeCatalog catalog = float_codes();
  catalog.add("m.q.extra", {4}, DType::f32);
  const CompiledModel model = compile_model(catalog, names_with(DType::bf16));
  ASSERT_EQ(model.leaves.size(), 3U);
  EXPECT_EQ(model.leaves[1].name, "m.q.extra");
  EXPECT_EQ(model.leaves[1].dtype, DType::bf16);
}

TEST(SameAxes, AGlobOfAxesHasToMatchAnArray) {
  FakeCatalog catalog;
  catalog.wording.array = "leaf";
  catalog.add("a", {3, 4});
  SameOptions same;
  same.axes = {parse_axes("b*=x,y")};
  const auto refusal = [&] {
    return catch_error([&] { compile_same(catalog, names_with({}), same); });
  };
  EXPECT_EQ(refusal().code(), ErrorCode::usage);
  EXPECT_EQ(refusal().sentence(), "--axes \"b*\" doesn't match any leaf");
  EXPECT_EQ(refusal().hint_text(), "a glob must match a whole name, as hfshard inspect prints it");
  same.axes = {parse_axes("a=x,y"), parse_axes("*=,z")};
  EXPECT_EQ(compile_same(catalog, names_with({}), same).leaves.at(0).axes,
            (std::vector<std::string>{"", "z"}))
      << "the last one counts";
  same.axes = {parse_axes("a=x")};
  EXPECT_EQ(refusal().sentence(), "--axes a=x names 1 of 2 axes: this leaf is 3x4");
  EXPECT_EQ(catch_error([] { parse_axes("a,b"); }).sentence(),
            "--axes needs GLOB=AXIS,AXIS,..., not \"a,b\"");
}

TEST(SameAxes, LeavesThatAreTakenAwayTakeTheirTransfers) {
  const FakeCatalog catalog = FakeCatalog().add("a", {2}).add("b", {3}).add("c", {4});
  CompiledModel model = compile_model(catalog, names_with({}));
  keep_leaves(model, [](const Leaf& leaf) { return leaf.name != "b"; });
  ASSERT_EQ(model.leaves.size(), 2U);
  EXPECT_EQ(model.leaves[1].name, "c");
  ASSERT_EQ(model.transfers.size(), 2U);
  EXPECT_EQ(model.transfers[1].target, 1U);
  EXPECT_EQ(model.transfers[1].sources, (std::vector<std::uint32_t>{2}));
}

}  // namespace
}  // namespace hfshard
