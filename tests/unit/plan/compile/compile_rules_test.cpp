#include <string>

#include <gtest/gtest.h>

#include "plan/compile/steps.h"
#include "support/catch_error.h"
#include "unit/mapping/tiny_family.h"
#include "unit/plan/compile/compile_support.h"
#include "unit/plan/compile/tiny_rules.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the tiny family with a decoder.
std::string with_decoder(const std::string& decoder) {
  return tiny_family_with("\"dims\"", "\"decode\": [" + decoder + "], \"dims\"");
}

struct DecodeFault {
  const char* what;
  ErrorCode code;
  void (*spoil)(FakeCatalog&);
};

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
  EXPECT_EQ(compile_text(text, catalog).leaves[2].name, "params.norm.scale");
  EXPECT_EQ(compile_text(text, catalog).leaves[2].dtype, DType::f32);
  catalog.get("norm.weight").dtype = DType::f64;
  EXPECT_EQ(compile_text(text, catalog).leaves[2].dtype, DType::f64);
}

// An axis that is a sum has no size for one dim to explain.
TEST(CompileRules, ASizeThatIsPartlyAWindowNamesAllKeys) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [(cyc D@0:D+F)]\", \"norm.scale [cyc D]\", {\"axes\": {\"cyc\": null}}]");
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").shape = {30};
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).sentence(),
            "config.json implies a size of 24 (hidden_size), and the tensor has 30 (30), which is "
            "larger");
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
  catalog.get("other.weight").dtype = DType::bf16;  // each of the two names its axis
  const std::string wide = with_norm_rule(
      "[\"norm.weight [D]\", \"a.b [D@0:2*D]\"], "
      "[\"other.weight [D]\", \"a.b [D@D:2*D]\", {\"dtype\": \"f32\"}]");
  const Error error = catch_error([&] { compile_text(wide, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.sentence(), "leaf \"params.a.b\" gets f32 here and bf16 from another rule");
  EXPECT_EQ(error.rule(), "mappings/tiny.json#/schemes/maxtext/global/1");
  EXPECT_EQ(compile_text(dtypes, catalog).leaves.size(), 3U);
  const std::string axes = with_norm_rule(
      "[\"norm.weight [D]\", \"a.b [D@0:2*D]\"], "
      "[\"other.weight [D]\", \"a.b [D@D:2*D]\", {\"axes\": {\"D\": \"norm\"}}]");
  EXPECT_EQ(catch_error([&] { compile_text(axes, catalog); }).code(), ErrorCode::bad_input);
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

TEST(CompileRules, CodedTensorsBecomeBf16AndUseUpTheirScales) {
  const FakeCatalog catalog = coded_catalog();
  const CompiledModel model = compile_text(with_decoder(kBlocks), catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  const Transfer& transfer = transfer_of(model, "params.decoder.layers.wi.kernel");
  ASSERT_TRUE(transfer.decode);
  EXPECT_EQ(transfer.decode->form, (BlockScale{Code::f8_e4m3, DType::f32, 5, 7, 4, 3}));
  ASSERT_EQ(transfer.decode->scales.size(), 2U);
  EXPECT_EQ(catalog.tensors[transfer.decode->scales[1]].name, "layers.1.up.weight_s");
  EXPECT_EQ(model.leaves[transfer.target].dtype, DType::bf16);
}

// The rule's axis of 8 codes is stored as 2 groups of 2 bytes.
TEST(CompileRules, PackedCodesHaveTheirOwnShape) {
  std::string coded = with_norm_rule(
      "[\"up_blocks [cyc g]\", \"up.kernel [cyc g]\", {\"axes\": {\"cyc\": null, \"g\": null}}]");
  coded.replace(coded.find("\"cyc\": 2"), 8, "\"cyc\": 2, \"g\": 8");
  coded.replace(coded.find("\"dims\""), 6,
                "\"decode\": [{\"name\": \"*_blocks\", \"kind\": \"mx\", \"scale\": "
                "\"{stem}_scales\"}], \"dims\"");
  FakeCatalog catalog = tiny_catalog();
  catalog.remove("norm.weight").add("up_blocks", {2, 2, 2}, DType::u8);
  catalog.add("up_scales", {2, 2}, DType::u8);
  const CompiledModel model = compile_text(coded, catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  const Transfer& transfer = transfer_of(model, "params.up.kernel");
  EXPECT_EQ(transfer.source_dtype, DType::f4);
  EXPECT_EQ(transfer.source_shape, (Shape{2, 8}));
  EXPECT_EQ(transfer.decode->form, (BlockScale{Code::f4_e2m1, DType::u8, 2, 8, 1, 4}));
  catalog.get("up_scales").shape = {3, 2};
  EXPECT_EQ(catch_error([&] { compile_text(coded, catalog); }).code(), ErrorCode::bad_input);
  catalog.get("up_scales").shape = {2, 2};
  catalog.get("up_blocks").shape = {3, 2, 2};
  EXPECT_EQ(catch_error([&] { compile_text(coded, catalog); }).code(), ErrorCode::bad_input);
  catalog.get("up_blocks").shape = {2, 2, 4};
  EXPECT_EQ(catch_error([&] { compile_text(coded, catalog); }).code(), ErrorCode::bad_input);
}

TEST(CompileRules, ScalesThatDoNotFitAreRefused) {
  const DecodeFault faults[] = {
      {"missing", ErrorCode::not_found,
       [](FakeCatalog& catalog) { catalog.remove("layers.1.up.weight_s"); }},
      {"another shape", ErrorCode::bad_input,
       [](FakeCatalog& catalog) {
         catalog.get("layers.0.up.weight_s").shape = {2, 2};
         catalog.get("layers.1.up.weight_s").shape = {2, 2};
       }},
      {"one of another shape", ErrorCode::bad_input,
       [](FakeCatalog& catalog) {
         catalog.get("layers.1.up.weight_s").shape = {3, 2};
       }},
      {"another shape of as many", ErrorCode::bad_input,
       [](FakeCatalog& catalog) {
         catalog.get("layers.0.up.weight_s").shape = {3, 2};
         catalog.get("layers.1.up.weight_s").shape = {3, 2};
       }},
      {"one of another shape and dtype", ErrorCode::bad_input,
       [](FakeCatalog& catalog) {
         catalog.get("layers.1.up.weight_s").shape = {3, 3};
         catalog.get("layers.1.up.weight_s").dtype = DType::bf16;
       }},
      {"no scale dtype", ErrorCode::bad_input,
       [](FakeCatalog& catalog) { catalog.get("layers.0.up.weight_s").dtype = DType::i32; }},
      {"one layer not coded", ErrorCode::bad_input,
       [](FakeCatalog& catalog) { catalog.get("layers.1.up.weight").dtype = DType::bf16; }}};
  for (const DecodeFault& fault : faults) {
    SCOPED_TRACE(fault.what);
    FakeCatalog catalog = coded_catalog();
    fault.spoil(catalog);
    EXPECT_EQ(catch_error([&] { compile_text(with_decoder(kBlocks), catalog); }).code(),
              fault.code);
  }
}

TEST(CompileRules, OneScaleOfATensorIsOneNumber) {
  const std::string whole =
      with_decoder(R"({"dtype": "F8_E4M3", "kind": "tensor", "scale": "{name}_s"})");
  FakeCatalog catalog = coded_catalog();
  EXPECT_EQ(catch_error([&] { compile_text(whole, catalog); }).code(), ErrorCode::bad_input);
  for (const Shape& shape : {Shape{}, Shape{1}}) {
    for (const char* name : {"layers.0.up.weight_s", "layers.1.up.weight_s"})
      catalog.get(name).shape = shape;
    const CompiledModel model = compile_text(whole, catalog);
    EXPECT_EQ(transfer_of(model, "params.decoder.layers.wi.kernel").decode->form,
              (BlockScale{Code::f8_e4m3, DType::f32, 5, 7, 5, 7}));
  }
}

TEST(CompileRules, ADecoderThatCannotReadTheCodesIsRefused) {
  const auto refusal = [](const std::string& decoder) {
    const Error error = catch_error([&] { compile_text(with_decoder(decoder), coded_catalog()); });
    EXPECT_EQ(error.code(), ErrorCode::bad_input);
    return error.sentence();
  };
  EXPECT_EQ(refusal(R"({"dtype": "F8_E4M3", "kind": "block", "scale": "{name}_s",
                        "block": [4, "0 - 1"]})"),
            "a block of -1 isn't possible");
  EXPECT_EQ(refusal(R"({"name": "*.up.weight", "kind": "mx", "scale": "{name}_s"})"),
            "expected mx packed codes of shape 5x7, found F8_E4M3 5x7");
  FakeCatalog integers = coded_catalog();
  for (const char* name : {"layers.0.up.weight", "layers.1.up.weight"})
    integers.get(name).dtype = DType::i8;
  const Error error = catch_error([&] {
    compile_text(with_decoder(R"({"dtype": "I8", "kind": "block", "scale": "{name}_s"})"),
                 integers);
  });
  EXPECT_NE(error.sentence().find("hfshard has no decoder for I8"), std::string::npos);
  EXPECT_EQ(error.tensor(), "layers.0.up.weight");
}

TEST(CompileRules, ADecoderNeedsTheFactorOfItsScales) {
  const std::string text = with_decoder(
      R"({"name": "*.up.weight", "kind": "mx", "scale": "{name}_s", "divide": "{name}_f"})");
  FakeCatalog catalog = tiny_catalog();
  for (const char* name : {"layers.0.up.weight", "layers.1.up.weight"}) {
    TensorInfo& codes = catalog.get(name);
    codes.dtype = DType::f4;
    catalog.add(std::string(name) + "_s", {5, 7}, DType::f32);
  }
  const Error error = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::not_found);
  EXPECT_EQ(error.sentence(),
            "the tensor is quantized (F4), and \"layers.0.up.weight_f\" is missing");
  EXPECT_EQ(error.tensor(), "layers.0.up.weight");
}

// Experts in one tensor: each has its own scale.
TEST(CompileRules, AListOfScalesIsForTheMatricesOfAStack) {
  const std::string text = [] {
    std::string out = with_decoder(R"({"dtype": "F8_E4M3", "kind": "block", "scale": "{name}_s"})");
    const std::string old = "[\"norm.weight [D]\", \"norm.scale [D]\"]";
    return out.replace(out.find(old), old.size(),
                       "[\"all.weight [E F D]\", \"all.kernel [E D F]\", {\"axes\": {\"E\": "
                       "\"exp\"}}]");
  }();
  FakeCatalog catalog = tiny_catalog();
  catalog.remove("norm.weight").add("all.weight", {2, 5, 7}, DType::f8_e4m3);
  catalog.add("all.weight_s", {2}, DType::f32);
  const CompiledModel model = compile_text(text, catalog);
  EXPECT_TRUE(prove(catalog, model).empty());
  EXPECT_EQ(transfer_of(model, "params.all.kernel").decode->form,
            (BlockScale{Code::f8_e4m3, DType::f32, 5, 7, 5, 7}));
  catalog.get("all.weight_s").shape = {3};
  EXPECT_EQ(catch_error([&] { compile_text(text, catalog); }).code(), ErrorCode::bad_input);
}

// Codes without a decoder would become meaningless numbers.
TEST(CompileRules, AQuantizationThatNothingDecodesIsRefused) {
  const auto check = [](const std::string& config) {
    check_quantization(parse_json(config, "config.json"), "x");
  };
  for (const char* known :
       {"{}", R"({"quantization_config": 8})", R"({"quantization_config": {"quant_method": 8}})",
        R"({"quantization_config": {"quant_method": "fp8"}})",
        R"({"quantization_config": {"quant_method": "modelopt"}})",
        R"({"quantization_config": {"quant_method": "compressed-tensors",
                                "format": "nvfp4-pack-quantized"}})"})
    EXPECT_NO_THROW(check(known)) << known;
  for (const char* unknown : {R"({"text_config": {"quantization_config": {"quant_method": "q7"}}})",
                              R"({"quantization_config": {"quant_method": "awq"}})",
                              R"({"quantization_config": {"quant_method": "compressed-tensors",
            "config_groups": {"a": {"format": "marlin-24"}}}})"}) {
    const Error error = catch_error([&] { check(unknown); });
    EXPECT_EQ(error.code(), ErrorCode::unsupported) << unknown;
    EXPECT_FALSE(error.hint_text().empty());
  }
}

TEST(CompileRules, KeepRefusesCodedTensorsByName) {
  MappingOptions options;
  options.keep_dtype = true;
  const Error error =
      catch_error([&] { compile_text(with_decoder(kBlocks), coded_catalog(), options); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "layers.0.up.weight");
}

TEST(CompileRules, ScalesOfWhatIsLeftOutGoWithIt) {
  MappingOptions options;
  options.exclude = {"*.up.weight"};
  const FakeCatalog catalog = coded_catalog();
  const CompiledModel model = compile_text(with_decoder(kBlocks), catalog, options);
  EXPECT_TRUE(prove(catalog, model).empty());
  EXPECT_EQ(model.drops.size(), 4U);
  options.exclude = {"*.up.weight", "*.up.weight_s"};
  EXPECT_EQ(compile_text(with_decoder(kBlocks), catalog, options).drops.size(), 4U);
}

TEST(CompileRules, CastsDecideOverDtypeAndFloor) {
  const std::string text =
      with_norm_rule("[\"norm.weight [D]\", \"norm.scale [D]\", {\"dtype\": \"f32\"}]");
  const FakeCatalog catalog = tiny_catalog();
  MappingOptions options;
  options.dtype = DType::f16;
  CompiledModel model = compile_text(text, catalog, options);
  EXPECT_EQ(model.leaves[0].dtype, DType::f16);
  EXPECT_EQ(model.leaves[2].dtype, DType::f32);
  options.casts = {{"*.scale", DType::f16}, {"*norm*", DType::bf16}, {"*wi*", DType::f32}};
  model = compile_text(text, catalog, options);
  EXPECT_EQ(model.leaves[1].dtype, DType::f32);
  EXPECT_EQ(model.leaves[2].dtype, DType::bf16);
}

TEST(CompileRules, ACastWithoutALeafIsAUsageError) {
  MappingOptions options;
  options.casts = {{"*wi*", DType::f32}, {"*nothing*", DType::f32}};
  const Error error =
      catch_error([&] { compile_text(std::string(kTinyFamily), tiny_catalog(), options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_NE(error.sentence().find("*nothing*=f32"), std::string::npos);
}

TEST(CompileRules, WhatStaysIsNarrowedByACastOnly) {
  const std::string text =
      with_norm_rule("[\"norm.weight [D]\", \"norm.scale [D]\", {\"stays\": \"f32\"}]");
  FakeCatalog catalog = tiny_catalog();
  MappingOptions options;
  options.dtype = DType::f16;
  EXPECT_EQ(compile_text(text, catalog, options).leaves[2].dtype, DType::f16);
  catalog.get("norm.weight").dtype = DType::f32;
  EXPECT_EQ(compile_text(text, catalog, options).leaves[2].dtype, DType::f32);
  options.casts = {{"*.scale", DType::bf16}};
  EXPECT_EQ(compile_text(text, catalog, options).leaves[2].dtype, DType::bf16);
}

// Layers of two dtypes become one leaf.
TEST(CompileRules, AStackOfSeveralDtypesHasTheOneThatStays) {
  const std::string text =
      tiny_family_with("\"wi.kernel [D F]\"", "\"wi.kernel [D F]\", {\"stays\": \"f32\"}");
  FakeCatalog catalog = tiny_catalog();
  for (const char* wide : {"layers.0.up.weight", "layers.1.up.weight"}) {
    catalog = tiny_catalog();
    catalog.get(wide).dtype = DType::f32;
    const CompiledModel model = compile_text(text, catalog);
    EXPECT_EQ(model.leaves[1].name, "params.decoder.layers.wi.kernel");
    EXPECT_EQ(model.leaves[1].dtype, DType::f32) << wide;
  }
}

TEST(CompileRules, ALeafOfTwoRulesIsLeftOutWhole) {
  const std::string text = with_norm_rule(
      "[\"norm.weight [D]\", \"a.b [D@0:2*D]\"], [\"other.weight [D]\", \"a.b [D@D:2*D]\"]");
  FakeCatalog catalog = tiny_catalog();
  catalog.add("other.weight", {7});
  MappingOptions options;
  options.exclude = {"other.weight"};
  const Error error = catch_error([&] { compile_text(text, catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::usage);
  EXPECT_EQ(error.tensor(), "other.weight");
  options.exclude = {"other.weight", "norm.weight"};
  EXPECT_EQ(compile_text(text, catalog, options).leaves.size(), 2U);
}

TEST(CompileRules, CastsLeaveIntegersAloneAndReadF64ButDoNotWriteIt) {
  MappingOptions options;
  options.dtype = DType::bf16;
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").dtype = DType::i64;
  EXPECT_EQ(compile_text(std::string(kTinyFamily), catalog, options).leaves[2].dtype, DType::i64);
  catalog.get("norm.weight").dtype = DType::f64;
  EXPECT_EQ(compile_text(std::string(kTinyFamily), catalog, options).leaves[2].dtype, DType::bf16);
  catalog = tiny_catalog();
  options.casts = {{"*norm.scale", DType::f64}};
  const Error error =
      catch_error([&] { compile_text(std::string(kTinyFamily), catalog, options); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "norm.weight");
}

TEST(CompileRules, IntegersBecomeWhatTheRuleSaysWhateverIsAskedFor) {
  const std::string text =
      with_norm_rule("[\"norm.weight [D]\", \"norm.scale [D]\", {\"dtype\": \"f32\"}]");
  for (const DType stored : {DType::i32, DType::i64}) {
    FakeCatalog catalog = tiny_catalog();
    catalog.get("norm.weight").dtype = stored;
    MappingOptions options;
    options.dtype = DType::bf16;
    options.casts = {{"*.scale", DType::f16}};
    const CompiledModel model = compile_text(text, catalog, options);
    EXPECT_EQ(model.leaves[2].dtype, DType::f32);
    for (const Transfer& transfer : model.transfers) {
      if (transfer.target != 2) continue;
      EXPECT_EQ(transfer.source_dtype, stored);
      EXPECT_TRUE(transfer.converts(DType::f32));
    }
  }
  FakeCatalog catalog = tiny_catalog();
  catalog.get("norm.weight").dtype = DType::u8;
  const Error error = catch_error([&] { compile_text(text, catalog); });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.tensor(), "norm.weight");
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
