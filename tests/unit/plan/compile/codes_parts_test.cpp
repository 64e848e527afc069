// The tensors beside codes, and what config.json says of them.

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compile/codes.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/tiny_rules.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(CodesParts, OnlyTheLastKeyOfANameTellsOfScales) {
  for (const char* name : {"scale", "m.scales", "m.weight_scale_inv", "m.k_scale"})
    EXPECT_TRUE(is_named_as_scale(name)) << name;
  for (const char* name : {"m.weight", "scale.weight", "m.weight_scale.x", ""})
    EXPECT_FALSE(is_named_as_scale(name)) << name;
}

TEST(CodesParts, EachTensorHasItsOwnScalesZeroPointsAndFactor) {
  CodedTensor first;
  first.form.code = Code::int8;
  first.scale = 5;
  first.zeros = 6;
  first.factor = 7;
  CodedTensor second = first;
  second.scale = 2;
  second.zeros = 3;
  second.factor = 4;
  const std::vector<CodedTensor> both{first, second};
  const Decode decode = decode_of(both);
  EXPECT_EQ(decode.form, first.form);
  EXPECT_EQ(decode.scales, (std::vector<std::uint32_t>{5, 2}));
  EXPECT_EQ(decode.zeros, (std::vector<std::uint32_t>{6, 3}));
  EXPECT_EQ(decode.factors, (std::vector<std::uint32_t>{7, 4}));
}

// The rows of the family's `up.weight` in two layers, the second of which is stored otherwise.
TEST(CodesParts, LayersOfTwoFormsKeepTheirOwnScales) {
  FakeCatalog catalog = tiny_catalog();
  for (const std::string name : {"layers.0.up.weight", "layers.1.up.weight"})
    catalog.get(name).dtype = DType::f8_e4m3;
  catalog.add("layers.0.up.weight_scale", {}, DType::f32);
  catalog.add("layers.1.up.weight_scale", {5, 1});
  const CompiledModel model = compile_text(std::string(kTinyFamily), catalog);
  std::vector<std::string> found;
  for (const Transfer& transfer : model.transfers) {
    if (!transfer.decode) continue;
    ASSERT_EQ(transfer.sources.size(), 1U);
    ASSERT_EQ(transfer.decode->scales.size(), 1U);
    found.push_back(fmt::format("{} {} at {}", catalog.tensors[transfer.sources[0]].name,
                                catalog.tensors[transfer.decode->scales[0]].name,
                                transfer.map.dst_base));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"layers.0.up.weight layers.0.up.weight_scale at 0",
                                             "layers.1.up.weight layers.1.up.weight_scale at 5"}));
}

FakeCatalog packed_words(const std::string& config = {}) {
  FakeCatalog out = FakeCatalog().add("m.q.weight_packed", {5, 8}, DType::i32);
  out.add("m.q.weight_scale", {5, 2});
  out.config_text = config;
  return out;
}

MappingOptions decode_all() {
  MappingOptions out;
  out.scheme = "hf";
  out.dtype = DType::bf16;
  return out;
}

TEST(CodesParts, ZeroPointsOfAnotherSizeOrDtypeAreRefused) {
  FakeCatalog catalog = packed_words();
  catalog.add("m.q.weight_zero_point", {2, 2}, DType::i32);
  const auto refusal = [&] { return catch_error([&] { compile_model(catalog, decode_all()); }); };
  EXPECT_EQ(refusal().code(), ErrorCode::bad_input);
  EXPECT_EQ(refusal().sentence(),
            "zero points of \"m.q.weight_packed\" have 8 bytes, and these are 2x2 with 16");
  EXPECT_EQ(refusal().tensor(), "m.q.weight_zero_point");
  catalog.get("m.q.weight_zero_point").dtype = DType::i64;
  EXPECT_EQ(refusal().sentence(), "hfshard can't use zero points of dtype I64");
  catalog.get("m.q.weight_zero_point").dtype = DType::i32;
  catalog.get("m.q.weight_zero_point").shape = {1, 2};
  const CompiledModel model = compile_model(catalog, decode_all());
  EXPECT_EQ(model.transfers.at(0).decode->zeros, (std::vector<std::uint32_t>{2}));
}

TEST(CodesParts, ZeroPointsThatTheConfigPromisesAreNamed) {
  for (const char* config :
       {R"({"quantization_config": {"quant_method": "compressed-tensors",
            "config_groups": {"a": {"weights": {"num_bits": 4, "symmetric": false}}}}})",
        R"({"text_config": {"quantization_config": {"quant_method": "compressed-tensors",
            "config_groups": {"a": {"weights": {"num_bits": 4, "symmetric": false}}}}}})"}) {
    const Error error = catch_error([&] { compile_model(packed_words(config), decode_all()); });
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_EQ(error.sentence(),
              "config.json says that the codes have zero points, and \"m.q.weight_zero_point\" is "
              "missing");
    EXPECT_EQ(error.tensor(), "m.q.weight_packed");
    EXPECT_EQ(error.hint_text(), "check that the download is complete");
  }
}

std::uint32_t bits_in(const std::string& config) {
  return packed_bits(parse_json(config, "c"), "dir");
}

TEST(CodesParts, BitsAreThoseOfGroupsThatPackIntegers) {
  const std::string eight = R"("weights": {"num_bits": 8, "type": "int"})";
  const auto bits = [&](const std::string& common, const std::string& own) {
    return bits_in(R"({"quantization_config": {)" + common + R"("config_groups": {"a": {)" + own +
                   eight + "}}}}");
  };
  EXPECT_EQ(bits("", ""), 8U);
  EXPECT_EQ(bits(R"("format": "pack-quantized", )", ""), 8U);
  EXPECT_EQ(bits(R"("format": "int-quantized", )", ""), 4U);
  EXPECT_EQ(bits(R"("format": "int-quantized", )", R"("format": "pack-quantized", )"), 8U);
  EXPECT_EQ(bits(R"("format": "pack-quantized", )", R"("format": "int-quantized", )"), 4U);
  EXPECT_EQ(bits_in(R"({"text_config": {"quantization_config": {"config_groups": {"a": {)" + eight +
                    "}}}}}"),
            8U);
}

TEST(CodesParts, WidthsThatWordsCannotTellAreRefused) {
  const auto refusal = [](const std::string& groups) {
    return catch_error(
        [&] { bits_in(R"({"quantization_config": {"config_groups": {)" + groups + "}}}"); });
  };
  const Error three = refusal(R"("a": {"weights": {"num_bits": 3}})");
  EXPECT_EQ(three.sentence(),
            "pack-quantized weights of 3 bits can't be decoded, only those of 4 and 8");
  EXPECT_EQ(three.file(), "dir/config.json");
  EXPECT_EQ(three.hint_text(),
            "decompress the model with compressed-tensors first, or pass --scheme hf to keep the "
            "codes");
  const Error several =
      refusal(R"("a": {"weights": {"num_bits": 8}}, "b": {"weights": {"num_bits": 4}})");
  EXPECT_EQ(several.sentence(),
            "weights are packed with several bit widths, which only a family's rules tell apart");
  EXPECT_EQ(several.file(), "dir/config.json");
  EXPECT_EQ(several.hint_text(), "decompress the model with compressed-tensors first");
}

TEST(CodesParts, AnUnknownQuantizationIsQuotedAndAKnownOneNamed) {
  const auto refusal = [](const std::string& quantization, std::string_view keep) {
    const Json config = parse_json(R"({"quantization_config": )" + quantization + "}", "c");
    return catch_error([&] { check_quantization(config, "dir", keep); });
  };
  const Error unknown = refusal(R"({"quant_method": "q7"})", kPassHf);
  EXPECT_EQ(unknown.sentence(),
            "the checkpoint is quantized with \"q7\", which hfshard doesn't know");
  EXPECT_EQ(unknown.file(), "dir/config.json");
  EXPECT_EQ(unknown.hint_text(),
            "convert the unquantized model, or pass --scheme hf to keep the codes");
  const Error known = refusal(R"({"quant_method": "gptq"})", "do nothing");
  EXPECT_EQ(known.sentence(), "the checkpoint is quantized with GPTQ, which can't be decoded");
  EXPECT_EQ(known.hint_text(),
            "convert the model that it was made from, or do nothing to keep the codes");
  const Error format =
      refusal(R"({"quant_method": "compressed-tensors", "format": "sparse-bitmask"})", kPassHf);
  EXPECT_EQ(format.sentence(),
            "the checkpoint is quantized with a sparse format of compressed-tensors, which can't "
            "be decoded");
}

TEST(CodesParts, ALayerOfValuesBeforeCodesDoesNotShiftTheScales) {
  FakeCatalog catalog = tiny_catalog();
  catalog.get("layers.1.up.weight").dtype = DType::f8_e4m3;
  catalog.add("layers.1.up.weight_scale", {}, DType::f32);
  const CompiledModel model = compile_text(std::string(kTinyFamily), catalog);
  std::vector<std::string> found;
  for (const Transfer& transfer : model.transfers) {
    if (model.leaves[transfer.target].name != "params.decoder.layers.wi.kernel") continue;
    found.push_back(catalog.tensors[transfer.sources.at(0)].name);
    if (transfer.decode) found.push_back(catalog.tensors[transfer.decode->scales.at(0)].name);
  }
  EXPECT_EQ(found, (std::vector<std::string>{"layers.0.up.weight", "layers.1.up.weight",
                                             "layers.1.up.weight_scale"}));
}

TEST(CodesParts, TheDecodersOfTheFamilyComeFirst) {
  const std::string text = tiny_family_with(
      "\"dims\"",
      R"("decode": [{"dtype": "F8_E4M3", "kind": "tensor", "scale": "{name}_scale"}], "dims")");
  FakeCatalog catalog = tiny_catalog();
  for (const std::string name : {"layers.0.up.weight", "layers.1.up.weight"}) {
    catalog.get(name).dtype = DType::f8_e4m3;
    catalog.add(name + "_scale", {5, 1}, DType::f32);
  }
  EXPECT_EQ(compile_text(std::string(kTinyFamily), catalog).leaves.size(), 3U);
  const Error error = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(error.sentence(), "expected 1 scales for \"layers.0.up.weight\" (5x7), found 5x1");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/decode/0");
}

TEST(CodesParts, EachMatrixOfAStackHasItsZeroPoints) {
  FakeCatalog catalog;
  catalog.add("w", {2, 4, 6}, DType::i8).add("w_scale", {2, 4, 1});
  catalog.add("w_zero_point", {2, 4, 1}, DType::i8);
  const CompiledModel model = compile_model(catalog, decode_all());
  ASSERT_EQ(model.leaves.size(), 1U);
  const Decode& decode = *model.transfers.at(0).decode;
  EXPECT_EQ(decode.form.zeros, ZeroPoints::int8);
  EXPECT_EQ(decode.form.rows, 4U);
  EXPECT_EQ(decode.zeros, (std::vector<std::uint32_t>{2}));
  catalog.get("w_zero_point").shape = {4, 1};
  EXPECT_EQ(catch_error([&] { compile_model(catalog, decode_all()); }).sentence(),
            "zero points of \"w\" have 8 bytes, and these are 4x1 with 4");
}

// Returns the form of the only coded tensor, `m.q.weight`.
BlockScale form_in(FakeCatalog catalog, const Shape& codes, const char* scale_end,
                   const Shape& scales, DType dtype) {
  catalog.add("m.q.weight", codes, DType::f8_e4m3);
  catalog.add(std::string("m.q.weight") + scale_end, scales, dtype);
  return compile_model(catalog, decode_all()).transfers.at(0).decode->form;
}

// Only decoders for several forms follow the shape of the scales.
TEST(CodesParts, BlocksThatARuleStatesAreNotThoseOfOtherScales) {
  const std::string text =
      tiny_family_with("\"dims\"", "\"decode\": [" + std::string(kBlocks) + "], \"dims\"");
  FakeCatalog catalog = coded_catalog();
  for (const char* name : {"layers.0.up.weight_s", "layers.1.up.weight_s"})
    catalog.get(name).shape = {5, 1};
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).sentence(),
            "expected 6 scales for \"layers.0.up.weight\" (5x7), found 5x1");
}

TEST(CodesParts, OnlySomeFormsRoundToTheirScales) {
  EXPECT_TRUE(form_in({}, {4, 6}, "_scale", {4, 1}, DType::f16).rounds_to_half);
  EXPECT_FALSE(form_in({}, {4, 6}, "_scale", {4, 1}, DType::f32).rounds_to_half);
  EXPECT_FALSE(form_in({}, {4, 6}, "_scale_inv", {1, 1}, DType::f16).rounds_to_half);
}

TEST(CodesParts, ScalesAreNotCodesWithoutScales) {
  FakeCatalog catalog;
  catalog.config_text = R"({"quantization_config": {"quant_method": "fp8"}})";
  catalog.add("m.q.weight_scale", {4, 6}, DType::f8_e4m3);
  const auto refusal = [&] { return catch_error([&] { compile_model(catalog, decode_all()); }); };
  EXPECT_EQ(refusal().code(), ErrorCode::unsupported);
  EXPECT_EQ(refusal().hint_text(),
            "leave out --dtype and --cast to keep the codes, or convert the unquantized model");
  catalog.remove("m.q.weight_scale").add("m.q.weight", {4, 6}, DType::f8_e4m3);
  EXPECT_EQ(refusal().code(), ErrorCode::not_found);
  EXPECT_EQ(refusal().sentence(),
            "the tensor is quantized (F8_E4M3), and its scales \"m.q.weight_scale_inv\" are "
            "missing");
}

TEST(CodesParts, CodesWithoutTheFactorOfTheirScalesAreOfAnotherForm) {
  FakeCatalog catalog;
  catalog.add("m.q.weight", {4, 8}, DType::u8).add("m.q.weight_scale", {4, 1}, DType::f8_e4m3);
  const Error error = catch_error([&] { compile_model(catalog, decode_all()); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "m.q.weight_scale");
  catalog.add("m.q.weight_scale_2", {}, DType::f32);
  EXPECT_EQ(compile_model(catalog, decode_all()).leaves.size(), 1U);
}

}  // namespace
}  // namespace hfshard
