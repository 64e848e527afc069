#include "plan/compile/codes.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"
#include "support/catch_error.h"
#include "unit/plan/compile/compile_support.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

const std::string kGate = "model.layers.1.mlp.gate_proj.weight";  // 14x26 in qwen3's example
constexpr std::string_view kLeaf = "params.params.decoder.layers.mlp.wi_0.kernel";

// Returns qwen3's example with an even hidden size and one coded projection.
FakeCatalog model_with(const Json::Object& quantization = {}) {
  Json::Object replaced{{"hidden_size", Json(32)}};
  if (!quantization.empty()) replaced.emplace("quantization_config", Json(quantization));
  FakeCatalog out = FakeCatalog::of("qwen3", example_config("qwen3", {{"hidden_size", Json(32)}}));
  out.config_text = dump_json(example_config("qwen3", replaced));
  out.remove(kGate);
  return out;
}

const Transfer* coded_transfer(const CompiledModel& model) {
  for (const Transfer& transfer : model.transfers) {
    if (transfer.decode) return &transfer;
  }
  return nullptr;
}

struct StoredForm {
  const char* what;
  void (*store)(FakeCatalog&);
  BlockScale form;
  DType codes;
};

BlockScale form_of(Code code, DType scale, std::uint64_t row_block, std::uint64_t col_block) {
  BlockScale out{code, scale, 14, 32, row_block, col_block};
  out.rounds_to_half = scale == DType::f16;
  return out;
}

BlockScale with_zeros(BlockScale form, ZeroPoints zeros) {
  form.zeros = zeros;
  return form;
}

BlockScale with_factor(BlockScale form, Factor factor) {
  form.factor = factor;
  return form;
}

const std::vector<StoredForm>& forms_of_bytes() {
  static const std::vector<StoredForm> kForms{
      {"FP8, one scale",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {}, DType::f32);
       },
       form_of(Code::f8_e4m3, DType::f32, 14, 32), DType::f8_e4m3},
      {"FP8 with two bits of fraction",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e5m2).add(kGate + "_scale", {}, DType::f32);
       },
       form_of(Code::f8_e5m2, DType::f32, 14, 32), DType::f8_e5m2},
      {"FP8, a scale for each row",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {14, 1});
       },
       form_of(Code::f8_e4m3, DType::bf16, 1, 32), DType::f8_e4m3},
      {"FP8, a list of them",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {14}, DType::f32);
       },
       form_of(Code::f8_e4m3, DType::f32, 1, 32), DType::f8_e4m3},
      {"FP8, a list for parts of the columns",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {8}, DType::f32);
       },
       form_of(Code::f8_e4m3, DType::f32, 14, 4), DType::f8_e4m3},
      {"FP8, blocks",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {2, 4}, DType::f32);
       },
       form_of(Code::f8_e4m3, DType::f32, 7, 8), DType::f8_e4m3},
      {"FP8 of DeepSeek",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale_inv", {1, 1}, DType::f32);
       },
       form_of(Code::f8_e4m3, DType::f32, 14, 32), DType::f8_e4m3},
      {"MXFP8",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {14, 1}, DType::u8);
       },
       form_of(Code::f8_e4m3, DType::u8, 1, 32), DType::f8_e4m3},
      {"int8",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::i8).add(kGate + "_scale", {14, 1}, DType::f16);
       },
       form_of(Code::int8, DType::f16, 1, 32), DType::i8},
      {"int8 with zero points",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 32}, DType::i8).add(kGate + "_scale", {14, 1});
         to.add(kGate + "_zero_point", {14, 1}, DType::i8);
       },
       with_zeros(form_of(Code::int8, DType::bf16, 1, 32), ZeroPoints::int8), DType::i8}};
  return kForms;
}

const std::vector<StoredForm>& forms_of_words() {
  static const std::vector<StoredForm> kForms{
      {"packed, 4 bits",
       [](FakeCatalog& to) {
         to.add(kGate + "_packed", {14, 4}, DType::i32).add(kGate + "_scale", {14, 2});
       },
       form_of(Code::int4, DType::bf16, 1, 16), DType::f4},
      {"packed, 4 bits with zero points",
       [](FakeCatalog& to) {
         to.add(kGate + "_packed", {14, 4}, DType::i32).add(kGate + "_scale", {14, 2});
         to.add(kGate + "_zero_point", {2, 2}, DType::i32);
       },
       with_zeros(form_of(Code::int4, DType::bf16, 1, 16), ZeroPoints::packed4), DType::f4},
      {"packed, 8 bits",
       [](FakeCatalog& to) {
         to.add(kGate + "_packed", {14, 8}, DType::i32).add(kGate + "_scale", {14, 1});
       },
       form_of(Code::uint8, DType::bf16, 1, 32), DType::u8},
      {"NVFP4",
       [](FakeCatalog& to) {
         to.add(kGate + "_packed", {14, 16}, DType::u8)
             .add(kGate + "_scale", {14, 2}, DType::f8_e4m3);
         to.add(kGate + "_global_scale", {1}, DType::f32);
       },
       with_factor(form_of(Code::f4_e2m1, DType::f8_e4m3, 1, 16), Factor::divides), DType::f4},
      {"NVFP4 of ModelOpt",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 16}, DType::u8).add(kGate + "_scale", {14, 2}, DType::f8_e4m3);
         to.add(kGate + "_scale_2", {}, DType::f32);
       },
       with_factor(form_of(Code::f4_e2m1, DType::f8_e4m3, 1, 16), Factor::multiplies), DType::f4},
      {"MXFP4",
       [](FakeCatalog& to) {
         to.add(kGate + "_packed", {14, 16}, DType::u8).add(kGate + "_scale", {14, 1}, DType::u8);
       },
       form_of(Code::f4_e2m1, DType::u8, 1, 32), DType::f4},
      {"MXFP4 of ModelOpt",
       [](FakeCatalog& to) {
         to.add(kGate, {14, 16}, DType::u8).add(kGate + "_scale", {14, 1}, DType::u8);
       },
       form_of(Code::f4_e2m1, DType::u8, 1, 32), DType::f4}};
  return kForms;
}

// The tensors decide, regardless of config.json.
void expect_forms(const std::vector<StoredForm>& forms) {
  for (const StoredForm& form : forms) {
    SCOPED_TRACE(form.what);
    FakeCatalog catalog = model_with();
    form.store(catalog);
    const CompiledModel model = compile_model(catalog, {});
    const Transfer* transfer = coded_transfer(model);
    ASSERT_NE(transfer, nullptr);
    EXPECT_EQ(transfer->decode->form, form.form);
    EXPECT_EQ(transfer->source_dtype, form.codes);
    EXPECT_EQ(transfer->source_shape, (Shape{14, 32}));
    EXPECT_EQ(model.leaves[transfer->target].name, kLeaf);
    EXPECT_EQ(model.leaves[transfer->target].dtype, DType::bf16);
  }
}

TEST(Codes, AreRecognizedByWhatStandsBesideThem) {
  expect_forms(forms_of_bytes());
  expect_forms(forms_of_words());
}

// Three blocks of 128 rows, the last with 44. Equal parts would have 100.
TEST(Codes, BlocksThatAreCutOffAreThoseOfTheConfig) {
  const auto compile = [](const Json::Object& quantization, const Shape& scales, int rows = 300) {
    Json config =
        example_config("qwen3", {{"hidden_size", Json(192)}, {"intermediate_size", Json(rows)}});
    FakeCatalog catalog = FakeCatalog::of("qwen3", config);
    if (!quantization.empty()) config["quantization_config"] = Json(quantization);
    catalog.config_text = dump_json(config);
    catalog.get(kGate).dtype = DType::f8_e4m3;
    catalog.add(kGate + "_scale", scales, DType::f32);
    return compile_model(catalog, {});
  };
  Json blocks;
  blocks["some"]["weights"]["block_structure"] = Json::Array{Json(100), Json(96)};
  const Json::Object said{{"quant_method", "compressed-tensors"}, {"config_groups", blocks}};
  const auto form = [](const CompiledModel& model) { return coded_transfer(model)->decode->form; };
  EXPECT_EQ(form(compile({}, {3, 2})).row_block, 128U);
  EXPECT_EQ(form(compile({}, {3, 2})).col_block, 128U);
  EXPECT_EQ(form(compile(said, {3, 2})).row_block, 100U);
  EXPECT_EQ(form(compile(said, {3, 2})).col_block, 96U);
  EXPECT_EQ(form(compile({}, {1, 2}, 1)).col_block, 96U) << "equal parts of the only row";
  EXPECT_EQ(form(compile(said, {300, 1})).row_block, 1U) << "another group of the same config";
  // Only one axis fits blocks of 128, so both axes have equal parts.
  EXPECT_EQ(form(compile({}, {5, 2})).row_block, 60U);
  EXPECT_EQ(form(compile({}, {5, 2})).col_block, 96U);
  EXPECT_EQ(form(compile({}, {3, 4})).row_block, 100U);
  EXPECT_EQ(form(compile({}, {3, 4})).col_block, 48U);
  EXPECT_EQ(catch_error([&] { compile({}, {7, 2}); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([&] { compile({}, {0, 4}); }).code(), ErrorCode::bad_input);
}

TEST(Codes, WhatStandsBesideThemIsDroppedByName) {
  FakeCatalog catalog = model_with();
  catalog.add(kGate + "_packed", {14, 4}, DType::i32).add(kGate + "_scale", {14, 2});
  catalog.add(kGate + "_shape", {2}, DType::i64);
  catalog.add("model.layers.1.mlp.gate_proj.input_scale", {}, DType::f32);
  catalog.add("model.layers.1.self_attn.k_proj.k_scale", {1}, DType::f32);
  const CompiledModel model = compile_model(catalog, {});
  std::vector<std::string> why;
  for (const Drop& drop : model.drops) why.push_back(drop.why);
  EXPECT_EQ(why.size(), 3U);
  // Without codes they are ordinary tensors.
  FakeCatalog plain = FakeCatalog::of("qwen3", example_config("qwen3", {}));
  plain.add("model.layers.1.mlp.gate_proj.input_scale", {}, DType::f32);
  EXPECT_EQ(catch_error([&] { compile_model(plain, {}); }).code(), ErrorCode::bad_input);
}

// Plain weights with scales for the cache. The copied config doesn't mention codes.
TEST(Codes, ScalesOfTheCacheAloneAreDroppedToo) {
  const Json config = example_config(
      "qwen3",
      {{"quantization_config", Json(Json::Object{{"quant_method", "compressed-tensors"}})}});
  FakeCatalog catalog = FakeCatalog::of("qwen3", example_config("qwen3", {}));
  catalog.config_text = dump_json(config);
  catalog.add("model.layers.1.self_attn.k_scale", {1}, DType::f32);
  const CompiledModel model = compile_model(catalog, {});
  EXPECT_EQ(model.drops.size(), 1U);
  EXPECT_EQ(coded_transfer(model), nullptr);
  EXPECT_NE(model.config_text.find("qwen3"), std::string::npos);
  EXPECT_EQ(model.config_text.find("quantization_config"), std::string::npos);
}

TEST(Codes, WhatDoesNotFitIsRefusedByName) {
  struct Fault {
    const char* what;
    ErrorCode code;
    void (*spoil)(FakeCatalog&);
  };
  const Fault faults[] = {
      {"zero points of another size", ErrorCode::bad_input,
       [](FakeCatalog& to) {
         to.add(kGate + "_zero_point", {3, 2}, DType::i32);
       }},
      {"zero points of another dtype", ErrorCode::bad_input,
       [](FakeCatalog& to) {
         to.add(kGate + "_zero_point", {2, 2}, DType::i64);
       }},
      {"another number of bits", ErrorCode::bad_input,
       [](FakeCatalog& to) {
         to.get(kGate + "_packed").shape = {14, 3};
       }},
      {"an order of their own", ErrorCode::unsupported,
       [](FakeCatalog& to) { to.add(kGate + "_g_idx", {32}, DType::i32); }},
      {"no scales", ErrorCode::bad_input, [](FakeCatalog& to) { to.remove(kGate + "_scale"); }}};
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.what);
    FakeCatalog catalog = model_with();
    catalog.add(kGate + "_packed", {14, 4}, DType::i32).add(kGate + "_scale", {14, 2});
    fault.spoil(catalog);
    const Error error = catch_error([&] { compile_model(catalog, {}); });
    EXPECT_EQ(error.code(), fault.code) << error.format();
  }
  FakeCatalog factor = model_with();
  factor.add(kGate + "_packed", {14, 16}, DType::u8).add(kGate + "_scale", {14, 2}, DType::f8_e4m3);
  factor.add(kGate + "_global_scale", {14}, DType::f32);
  EXPECT_EQ(catch_error([&] { compile_model(factor, {}); }).code(), ErrorCode::bad_input);
}

TEST(Codes, WithoutScalesTheyAreRefusedWithAHint) {
  FakeCatalog catalog = model_with();
  catalog.add(kGate, {14, 32}, DType::f8_e4m3);
  MappingOptions options;
  options.dtype = DType::bf16;
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), kGate);
  EXPECT_TRUE(error.hint_text().starts_with("scales must be next to the codes, such as \"" + kGate))
      << error.hint_text();
}

TEST(Codes, CodesThatAreKeptHaveNoDtypeBesides) {
  const FakeCatalog catalog = FakeCatalog::of("qwen3_5", example_config("qwen3_5"));
  MappingOptions options;
  options.options = {{"codes", "kept"}};
  options.dtype = DType::bf16;
  const Error error = catch_error([&] { compile_model(catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.sentence(), "--option codes=kept can't be used with --dtype bf16");
}

TEST(Codes, CodesThatAreKeptKeepTheirConfig) {
  const FakeCatalog catalog = kept_example();
  MappingOptions options;
  options.options = {{"codes", "kept"}};
  options.num_layers = 4;
  EXPECT_NE(compile_model(catalog, options).config_text.find("quantization_config"),
            std::string::npos);
}

TEST(Codes, ZeroPointsThatTheConfigPromisesCannotBeMissing) {
  const auto compile = [](const std::string& groups, bool has_zeros = false) {
    FakeCatalog catalog = model_with(
        {{"quant_method", "compressed-tensors"}, {"config_groups", parse_json(groups, "c")}});
    catalog.add(kGate + "_packed", {14, 4}, DType::i32).add(kGate + "_scale", {14, 2});
    if (has_zeros) catalog.add(kGate + "_zero_point", {2, 2}, DType::i32);
    return compile_model(catalog, {});
  };
  const std::string promised = R"({"weights": {"num_bits": 4, "symmetric": false}})";
  for (const std::string& groups :
       {R"({"a": )" + promised + "}", R"({"a": {"weights": 8}, "b": )" + promised + "}",
        R"({"a": {"input_activations": {}}, "b": )" + promised + "}",
        R"({"a": 8, "b": )" + promised + "}"}) {
    const Error error = catch_error([&] { compile(groups); });
    EXPECT_EQ(error.code(), ErrorCode::not_found) << groups;
    EXPECT_EQ(error.tensor(), kGate + "_packed") << groups;
    EXPECT_EQ(coded_transfer(compile(groups, true))->decode->form.zeros, ZeroPoints::packed4);
  }
  // The promise could be for other weights.
  for (const std::string& groups :
       {R"({"a": {"weights": {"symmetric": true}}, "b": )" + promised + "}",
        R"({"a": {"weights": {}}, "b": )" + promised + "}",
        R"({"a": {"weights": {"symmetric": 0}}, "b": )" + promised + "}", std::string("{}"),
        std::string("[]"), std::string("8")})
    EXPECT_NE(coded_transfer(compile(groups)), nullptr) << groups;
}

// Layers that are quantized in several ways become one leaf. Codes of one dtype can have scales of
// several.
TEST(Codes, LayersOfSeveralFormsAreOneLeaf) {
  const std::string first = "model.layers.0.mlp.gate_proj.weight";
  const auto parts_with = [&](void (*store)(FakeCatalog&)) {
    FakeCatalog catalog = model_with();
    catalog.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {}, DType::f32);
    catalog.remove(first);
    store(catalog);
    const CompiledModel model = compile_model(catalog, {});
    return std::ranges::count_if(model.transfers, [&](const Transfer& transfer) {
      return model.leaves[transfer.target].name == kLeaf;
    });
  };
  EXPECT_EQ(parts_with([](FakeCatalog& to) {
              const std::string name = "model.layers.0.mlp.gate_proj.weight";
              to.add(name + "_packed", {14, 4}, DType::i32).add(name + "_scale", {14, 2});
            }),
            3);
  EXPECT_EQ(parts_with([](FakeCatalog& to) {
              const std::string name = "model.layers.0.mlp.gate_proj.weight";
              to.add(name, {14, 32}, DType::f8_e4m3).add(name + "_scale", {14, 1});
            }),
            3);
  EXPECT_EQ(parts_with([](FakeCatalog& to) {
              const std::string name = "model.layers.0.mlp.gate_proj.weight";
              to.add(name, {14, 32}, DType::f8_e4m3).add(name + "_scale", {}, DType::f32);
            }),
            2);
}

TEST(Codes, PackedBitsAreThoseOfTheConfigWhereNoRuleTellsThem) {
  const auto bits = [](const std::string& groups) {
    return packed_bits(
        parse_json(R"({"quantization_config": {"config_groups": {)" + groups + "}}}", "c"), "c");
  };
  EXPECT_EQ(packed_bits(Json(), "c"), 4U);
  for (const char* groups : {"[]", "8", R"({"a": 8})", R"({"a": {"weights": 8}})"}) {
    const Json config = parse_json(
        fmt::format(R"({{"quantization_config": {{"config_groups": {}}}}})", groups), "c");
    EXPECT_EQ(packed_bits(config, "c"), 4U) << groups;
  }
  EXPECT_EQ(bits(R"("a": {"weights": {"num_bits": 8, "type": "int"}})"), 8U);
  EXPECT_EQ(bits(R"("a": {"weights": {"num_bits": "8"}})"), 4U) << "a text states no number";
  EXPECT_EQ(
      bits(
          R"("a": {"weights": {"num_bits": 8, "type": "float"}}, "b": {"weights": {"num_bits": 4}})"),
      4U);
  for (const char* groups :
       {R"("a": {"weights": {"num_bits": 8}}, "b": {"weights": {"num_bits": 4}})",
        R"("a": {"weights": {"num_bits": 3}})"})
    EXPECT_EQ(catch_error([&] { bits(groups); }).code(), ErrorCode::unsupported) << groups;
}

// Returns the error for qwen3's example with one coded projection.
Error refusal_of(void (*store)(FakeCatalog&)) {
  FakeCatalog catalog = model_with();
  store(catalog);
  return catch_error([&] { compile_model(catalog, {}); });
}

TEST(Codes, AFactorIsOneNumberOfF32) {
  const Error error = refusal_of([](FakeCatalog& to) {
    to.add(kGate + "_packed", {14, 16}, DType::u8)
        .add(kGate + "_scale", {14, 2}, DType::f8_e4m3)
        .add(kGate + "_global_scale", {1}, DType::bf16);
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "\"" + kGate + "_packed\" needs one F32 number, and this is BF16 1");
  EXPECT_EQ(error.tensor(), kGate + "_global_scale");
}

TEST(Codes, OfAnotherShapeThanTheConfigsAreRefused) {
  const Error error = refusal_of([](FakeCatalog& to) {
    to.add(kGate, {15, 32}, DType::f8_e4m3).add(kGate + "_scale", {}, DType::f32);
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(
      error.sentence(),
      "intermediate_size in config.json is 14, and the tensor has 15 (15x32), which is larger");
}

// The check of a model's headers says the same.
TEST(Codes, NamesOfCodesInAnotherShapeAreRefused) {
  FakeCatalog catalog = model_with();
  catalog.add(kGate, {14, 32}, DType::f8_e4m3).add(kGate + "_scale", {}, DType::f32);
  EXPECT_TRUE(check_names(catalog, {}).findings.empty());
  catalog.get(kGate).shape = {15, 32};
  EXPECT_EQ(
      catch_error([&] { check_names(catalog, {}); }).sentence(),
      "intermediate_size in config.json is 14, and the tensor has 15 (15x32), which is larger");
}

TEST(Codes, AListOfWordsIsNoMatrix) {
  const Json config = example_config("qwen3", {{"hidden_size", Json(8)}});
  FakeCatalog catalog = FakeCatalog::of("qwen3", config);
  catalog.remove(kGate).add(kGate + "_packed", {14}, DType::i32).add(kGate + "_scale", {14, 1});
  EXPECT_EQ(catch_error([&] { compile_model(catalog, {}); }).sentence(),
            "the tensor is 14; config.json says 14x8");
}

TEST(Codes, ZeroPointsOfBlocksOfRowsAreRefused) {
  const Error error = refusal_of([](FakeCatalog& to) {
    to.add(kGate + "_packed", {14, 4}, DType::i32)
        .add(kGate + "_scale", {7, 2})
        .add(kGate + "_zero_point", {2, 2}, DType::i32);
  });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "hfshard can't use zero points of dtype I32");
}

}  // namespace
}  // namespace hfshard
