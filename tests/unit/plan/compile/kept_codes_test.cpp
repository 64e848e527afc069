#include "plan/compile/kept_codes.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TensorInfo tensor(const std::string& name, DType dtype, const Shape& shape = {4, 4}) {
  TensorInfo out;
  out.name = name;
  out.dtype = dtype;
  out.shape = shape;
  return out;
}

// Returns the codes that a tensor with this name belongs to, or "".
std::string owner(const std::vector<TensorInfo>& codes, const std::string& part) {
  KeptCodes kept;
  for (const TensorInfo& one : codes) kept.add(one);
  const TensorInfo* found = kept.codes_of(tensor(part, DType::f32));
  return found == nullptr ? "" : found->name;
}

TEST(KeptCodes, PartsAreNextToTheCodesOrBelowThem) {
  for (const DType dtype : {DType::u8, DType::i8, DType::f8_e4m3, DType::f8_e5m2}) {
    const std::vector<TensorInfo> codes = {tensor("m.q.weight", dtype)};
    for (const char* part : {"m.q.weight_scale", "m.q.SCB", "m.q.weight.absmax",
                             "m.q.weight.quant_state.nf4", "m.q.zero"})
      EXPECT_EQ(owner(codes, part), "m.q.weight") << part << " " << to_string(dtype);
  }
}

TEST(KeptCodes, OtherModulesAndParametersOfTheModuleAreFree) {
  const std::vector<TensorInfo> codes = {tensor("m.q.weight_packed", DType::u8)};
  for (const char* part : {"m.k.scale", "m.scale", "m.q.bias", "m.q.weight", "m.q2.scale",
                           "m.q.weight_packed", "m.q.gate_up_proj_bias"})
    EXPECT_EQ(owner(codes, part), "") << part;
}

TEST(KeptCodes, ValuesScalarsListsAndScalesAreNotCodes) {
  const std::vector<TensorInfo> others = {
      tensor("m.q.a", DType::bf16),         tensor("m.q.b", DType::boolean),
      tensor("m.q.c", DType::i64),          tensor("m.q.d", DType::u8, {}),
      tensor("m.q.e", DType::u8, {64}),     tensor("m.q.weight_scale", DType::u8),
      tensor("m.q.weight2", DType::f8_e8m0)};
  EXPECT_EQ(owner(others, "m.q.scale"), "");
}

// Words are codes only next to scales: other integers, such as a router's table, aren't.
TEST(KeptCodes, WordsOwnOnlyScales) {
  for (const DType dtype : {DType::i32, DType::u32}) {
    const std::vector<TensorInfo> codes = {tensor("gate.tid2eid", dtype)};
    EXPECT_EQ(owner(codes, "gate.temperature"), "");
    EXPECT_EQ(owner(codes, "gate.weight"), "");
    EXPECT_EQ(owner(codes, "gate.scales"), "gate.tid2eid") << to_string(dtype);
  }
}

TEST(KeptCodes, NamesWithoutModulesShareNothing) {
  const std::vector<TensorInfo> codes = {tensor("table", DType::i8)};
  EXPECT_EQ(owner(codes, "scale"), "");
  EXPECT_EQ(owner(codes, "table.scale"), "table");
}

TEST(KeptCodes, UnknownScalesNameWhatLooksLikeThem) {
  Catalog catalog;
  catalog.tensors = {tensor("m.q.scale", DType::f32, {}), tensor("m.q.weight", DType::f8_e4m3)};
  const Error found = unknown_scales(catalog.tensors[1], catalog);
  EXPECT_EQ(found.tensor(), "m.q.weight");
  EXPECT_NE(found.sentence().find("the form of its scales, \"m.q.scale\""), std::string::npos)
      << found.sentence();
  catalog.tensors[0].name = "m.k.scale";
  EXPECT_EQ(unknown_scales(catalog.tensors[1], catalog).sentence(),
            "the tensor is stored as F8_E4M3, and hfshard doesn't know its scales")
      << "those of another module";
  catalog.tensors.erase(catalog.tensors.begin());
  EXPECT_TRUE(unknown_scales(catalog.tensors[0], catalog).sentence().ends_with("know its scales"));
}

}  // namespace
}  // namespace hfshard
