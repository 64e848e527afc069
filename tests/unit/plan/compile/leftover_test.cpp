#include <string>

#include <gtest/gtest.h>

#include "plan/compile/codes.h"
#include "plan/compile/kept_codes.h"
#include "plan/compile/steps.h"
#include "unit/plan/compile/compile_support.h"

namespace hfshard {
namespace {

TEST(Leftover, NamesOfEveryMethodAreKnown) {
  for (const char* name : {"m.qweight",
                           "m.qzeros",
                           "m.g_idx",
                           "m.weight_scale",
                           "m.weight_scale_inv",
                           "m.weight_packed",
                           "m.weight_shape",
                           "m.weight_scale_2",
                           "m.weight_zero_point",
                           "m.gate_blocks",
                           "m.gate_scales",
                           "m.activation_scale",
                           "m.input_scale",
                           "m.weight.absmax",
                           "m.weight.quant_map",
                           "m.SCB",
                           "m.scales",
                           "m.W_q",
                           "m.codes",
                           "m.codebooks",
                           "m.Qidxs",
                           "m.indices",
                           "m.scale",
                           "m.k_scale",
                           "m.v_scale",
                           "m.weight_global_scale",
                           "m.weight.quant_state.bitsandbytes__nf4"})
    EXPECT_TRUE(is_name_of_codes(name)) << name;
  for (const char* name : {"m.weight", "m.bias", "m.rescale", "scale", "m.scale.weight",
                           "m.quant_state", "m.blocks", "m.qweights"})
    EXPECT_FALSE(is_name_of_codes(name)) << name;
}

// Each makes the quantization_config count.
TEST(Leftover, ATensorOfCodesKeepsTheQuantizationOfTheConfig) {
  const Json config =
      parse_json(R"({"a": 1, "text_config": {"b": 2, "quantization_config": {}}})", "config");
  const auto drops = [&](const std::string& name, DType dtype, const Shape& shape) {
    return without_leftover(config, FakeCatalog().add("n", {2}).add(name, shape, dtype));
  };
  EXPECT_EQ(drops("m.weight", DType::f8_e4m3, {2}), std::nullopt);
  EXPECT_EQ(drops("m.weight", DType::i32, {2, 1}), std::nullopt);
  EXPECT_EQ(drops("m.scale", DType::f32, {2}), std::nullopt);
  const Json without = parse_json(R"({"a": 1, "text_config": {"b": 2}})", "config");
  EXPECT_EQ(drops("m.weight", DType::i32, {1, 2}), without);
  EXPECT_EQ(drops("m.weight", DType::i32, {2}), without);
  EXPECT_EQ(drops("m.weight", DType::boolean, {2, 2}), without);
  EXPECT_EQ(drops("m.weight", DType::f16, {2, 2}), without);
  EXPECT_EQ(without_leftover(without, FakeCatalog()), std::nullopt);
}

TEST(KeptCodesErrors, ACastOfAPartNamesItsOption) {
  MappingOptions options;
  const Error by_dtype = cast_of_part("m.scale", "m.weight", options);
  EXPECT_EQ(by_dtype.code(), ErrorCode::unsupported);
  EXPECT_EQ(by_dtype.tensor(), "m.scale");
  EXPECT_EQ(by_dtype.sentence(),
            "the tensor belongs to \"m.weight\", whose codes stay as stored, and --dtype would "
            "change only this tensor");
  options.casts.emplace_back();
  EXPECT_EQ(cast_of_part("m.scale", "m.weight", options).sentence(),
            "the tensor belongs to \"m.weight\", whose codes stay as stored, and --cast would "
            "change only this tensor");
}

}  // namespace
}  // namespace hfshard
