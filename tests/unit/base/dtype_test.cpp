#include "hfshard/dtype.h"

#include <limits>

#include <gtest/gtest.h>

#include "support/catch_error.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

TEST(DType, NamesGoBothWays) {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(dtype)), dtype);
    EXPECT_EQ(dtype_from_string(to_string(dtype)), dtype);
    EXPECT_GE(size_bits(dtype), 4U);
  }
  EXPECT_EQ(safetensors_name(DType::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(to_string(DType::boolean), "bool");
  EXPECT_FALSE(dtype_from_safetensors("bf16"));
  EXPECT_FALSE(dtype_from_string("BF16"));
}

TEST(DType, SizesAreInBits) {
  EXPECT_EQ(size_bits(DType::f4), 4U);
  EXPECT_EQ(size_bits(DType::f6_e2m3), 6U);
  EXPECT_EQ(size_bits(DType::f8_e8m0), 8U);
  EXPECT_EQ(size_bits(DType::bf16), 16U);
  EXPECT_EQ(size_bits(DType::c64), 64U);
  EXPECT_TRUE(is_float(DType::f8_e5m2fnuz));
  EXPECT_FALSE(is_float(DType::i64));
}

TEST(DType, PackedBytesRefusesHalfBytesAndOverflow) {
  EXPECT_EQ(packed_bytes(DType::f4, 6), 3U);
  EXPECT_EQ(packed_bytes(DType::f6_e3m2, 4), 3U);
  EXPECT_EQ(packed_bytes(DType::f64, 0), 0U);
  EXPECT_EQ(catch_error([] { packed_bytes(DType::f4, 3); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(catch_error([] { packed_bytes(DType::f32, std::uint64_t{1} << 60); }).code(),
            ErrorCode::bad_input);
}

TEST(Shape, HoldsUpToEightDims) {
  Shape shape{2, 3};
  EXPECT_EQ(shape.rank(), 2U);
  EXPECT_EQ(shape.numel(), 6U);
  EXPECT_EQ(Shape{}.numel(), 1U);
  EXPECT_EQ((Shape{4, 0, 5}).numel(), 0U);
  shape.push_back(5);
  shape.insert(0, 7);
  EXPECT_EQ(shape, (Shape{7, 2, 3, 5}));
  EXPECT_EQ(shape.strides(), (Shape{30, 15, 5, 1}));
  EXPECT_NE(shape, (Shape{7, 2, 3}));
  EXPECT_EQ(to_string(Shape{2048, 1024}), "2048x1024");
  EXPECT_EQ(to_string(Shape{}), "scalar");
}

TEST(Shape, RefusesNineDimsAndOverflow) {
  const Shape eight{1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(catch_error([&] { Shape(eight).push_back(1); }).code(), ErrorCode::unsupported);
  EXPECT_EQ(catch_error([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }).code(), ErrorCode::unsupported);
  const std::uint64_t huge = std::uint64_t{1} << 40;
  EXPECT_EQ(catch_error([&] { (Shape{huge, huge}).numel(); }).code(), ErrorCode::bad_input);
}

}  // namespace
}  // namespace hfshard
