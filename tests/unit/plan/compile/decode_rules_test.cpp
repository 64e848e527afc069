#include <gtest/gtest.h>

#include "plan/compile/steps.h"

#include "hfshard/mapping.h"

namespace hfshard {
namespace {

MappingOptions with_dtype(DType dtype) {
  MappingOptions out;
  out.dtype = dtype;
  return out;
}

DTypeRule at_least(DType floor) {
  DTypeRule out;
  out.floor = floor;
  return out;
}

DTypeRule that_stays(DType dtype) {
  DTypeRule out;
  out.stays = dtype;
  return out;
}

TEST(LeafDType, IsTheOneAskedForUnlessTheRuleNeedsMoreBits) {
  const MappingOptions f16 = with_dtype(DType::f16);
  EXPECT_EQ(leaf_dtype(f16, "a", DType::f32, {}), DType::f16);
  EXPECT_EQ(leaf_dtype(f16, "a", DType::f32, at_least(DType::f32)), DType::f32);
  // As many bits are enough.
  EXPECT_EQ(leaf_dtype(f16, "a", DType::f32, at_least(DType::bf16)), DType::f16);
  EXPECT_EQ(leaf_dtype({}, "a", DType::bf16, at_least(DType::f32)), DType::f32);
  EXPECT_EQ(leaf_dtype({}, "a", DType::f32, at_least(DType::bf16)), DType::f32);
}

TEST(LeafDType, StaysWhereTheRuleSaysSo) {
  const MappingOptions bf16 = with_dtype(DType::bf16);
  EXPECT_EQ(leaf_dtype(bf16, "a", DType::f32, that_stays(DType::f32)), DType::f32);
  EXPECT_EQ(leaf_dtype(bf16, "a", DType::f16, that_stays(DType::f32)), DType::bf16);
}

TEST(LeafDType, OnlyACastGoesBelowTheRule) {
  MappingOptions options = with_dtype(DType::f32);
  options.casts = {{"layers.*", DType::bf16}, {"layers.norm", DType::f16}};
  const DTypeRule rule = at_least(DType::f32);
  EXPECT_EQ(leaf_dtype(options, "layers.gate", DType::bf16, rule), DType::bf16);
  EXPECT_EQ(leaf_dtype(options, "layers.norm", DType::bf16, rule), DType::f16);  // the last one
  EXPECT_EQ(leaf_dtype(options, "head", DType::bf16, rule), DType::f32);
}

TEST(LeafDType, IntegersAreTheRules) {
  MappingOptions options = with_dtype(DType::bf16);
  options.casts = {{"*", DType::bf16}};
  EXPECT_EQ(leaf_dtype(options, "tid2eid", DType::i64, {}), DType::i64);
  EXPECT_EQ(leaf_dtype(options, "tid2eid", DType::i64, at_least(DType::i32)), DType::i32);
}

}  // namespace
}  // namespace hfshard
