// The tensors that a quantized checkpoint of a family has.

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "mapping/resolve/family_info.h"
#include "unit/mapping/families.h"
#include "unit/mapping/tiny_family.h"

namespace hfshard {
namespace {

// Returns the names, shapes and dtypes of a tiny model with one layer and one expert.
std::string tensors_with(const std::string& decoders, const std::string& up = "up.weight") {
  std::string text = tiny_family_with("\"dims\"", "\"decode\": [" + decoders + "], \"dims\"");
  text.replace(text.find("up.weight"), 9, up);
  const Json config = parse_json(R"({"hidden_size": 64, "num_hidden_layers": 1, "num_experts": 1,
                                     "quantization_config": {"quant_method": "own"}})",
                                 "config.json");
  std::string out;
  for (const ExpectedTensor& tensor : expected_tensors(tiny_file(text), config)) {
    if (tensor.name.find("experts") != std::string::npos || tensor.name.starts_with("norm"))
      continue;
    out += tensor.name.substr(9) + " " + to_string(tensor.shape);
    if (tensor.dtype) out += " " + std::string(to_string(*tensor.dtype));
    out += tensor.scale ? " scale; " : "; ";
  }
  return out;
}

TEST(ExpectedCodes, ADecoderWithoutANameIsForWeightsThatAreUsuallyQuantized) {
  const std::string any =
      R"({"kind": "block", "dtype": "F8_E4M3", "scale": "{name}_s", "block": [2, 32]})";
  EXPECT_EQ(tensors_with(any), "up.weight 5x64 f8_e4m3; up.weight_s 3x2 f32 scale; ");
  for (const std::string plain : {"up.kernel", "router.weight", "lm_head.weight", "norm.weight",
                                  "embed.weight", "x.gate.weight", "vis.weight"})
    EXPECT_EQ(tensors_with(any, plain), plain + " 5x64; ");
}

TEST(ExpectedCodes, PackedCodesAreThoseThatTheirNameSays) {
  const std::string packed =
      R"({"kind": "mx", "name": "*.router.weight", "dtype": "U8", "scale": "{name}_s"})";
  EXPECT_EQ(tensors_with(packed, "router.weight"),
            "router.weight 5x32 u8; router.weight_s 5x2 u8 scale; ");
}

TEST(ExpectedCodes, BlocksWithoutASizeAreSingleElementsOrThirtyTwo) {
  const auto decoder = [](const std::string& kind, const std::string& dtype,
                          const std::string& more = "") {
    return R"({"kind": ")" + kind + R"(", "name": "*.up.weight", "dtype": ")" + dtype +
           R"(", "scale": "{name}_s")" + more + "}";
  };
  EXPECT_EQ(tensors_with(decoder("block", "F8_E4M3")),
            "up.weight 5x64 f8_e4m3; up.weight_s 5x64 f32 scale; ");
  EXPECT_EQ(tensors_with(decoder("block", "F8_E4M3", R"(, "block": [0, 16])")),
            "up.weight 5x64 f8_e4m3; up.weight_s 5x4 f32 scale; ");
  EXPECT_EQ(tensors_with(decoder("packed", "I32", R"(, "block": [1, 16])")),
            "up.weight 5x8 i32; up.weight_s 5x4 bf16 scale; ");
}

TEST(ExpectedCodes, TheFirstDecoderThatIsUsualCounts) {
  const std::string own = R"("name": "*.up.weight", "scale": "{name}_s", "dtype": )";
  const std::string unusual = R"({"kind": "tensor", "usual": "false", )" + own + R"("F8_E5M2"})";
  const std::string first = R"({"kind": "tensor", )" + own + R"("F8_E5M2"})";
  const std::string second = R"({"kind": "mx", )" + own + R"("U8"})";
  EXPECT_EQ(tensors_with(unusual + ", " + second), "up.weight 5x32 u8; up.weight_s 5x2 u8 scale; ");
  EXPECT_EQ(tensors_with(first + ", " + second),
            "up.weight 5x64 f8_e5m2; up.weight_s scalar f32 scale; ");
}

TEST(ExpectedCodes, CodesThatAreKeptAreThoseWithScalesInTheRules) {
  Json config = kept_codes_config();
  const FamilyFile family = family_by_name("qwen3_5");
  std::size_t codes = 0;
  std::size_t scales = 0;
  for (const ExpectedTensor& tensor : expected_tensors(family, config, {{"codes", "kept"}})) {
    if (tensor.dtype == DType::f8_e4m3) ++codes;
    if (tensor.name.ends_with("_scale_inv")) ++scales;
    EXPECT_FALSE(tensor.scale) << tensor.name << " is a tensor of the rules";
  }
  EXPECT_GT(codes, 0U);
  EXPECT_EQ(codes, scales);
  config["quantization_config"] = Json();
  for (const ExpectedTensor& tensor : expected_tensors(family, config))
    EXPECT_NE(tensor.dtype, DType::f8_e4m3) << tensor.name;
}

}  // namespace
}  // namespace hfshard
