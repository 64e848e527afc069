#include "hfshard/dtype.h"

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

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

struct NamedDType {
  std::string_view safetensors;
  std::string_view name;
  std::uint32_t bits;
  bool is_float;
};

TEST(DType, EachHasItsNamesItsSizeAndItsKind) {
  const std::array<NamedDType, kDTypeCount> all{{{"BOOL", "bool", 8, false},
                                                 {"F4", "f4", 4, true},
                                                 {"F6_E2M3", "f6_e2m3", 6, true},
                                                 {"F6_E3M2", "f6_e3m2", 6, true},
                                                 {"U8", "u8", 8, false},
                                                 {"I8", "i8", 8, false},
                                                 {"F8_E5M2", "f8_e5m2", 8, true},
                                                 {"F8_E4M3", "f8_e4m3", 8, true},
                                                 {"F8_E8M0", "f8_e8m0", 8, true},
                                                 {"F8_E4M3FNUZ", "f8_e4m3fnuz", 8, true},
                                                 {"F8_E5M2FNUZ", "f8_e5m2fnuz", 8, true},
                                                 {"I16", "i16", 16, false},
                                                 {"U16", "u16", 16, false},
                                                 {"F16", "f16", 16, true},
                                                 {"BF16", "bf16", 16, true},
                                                 {"I32", "i32", 32, false},
                                                 {"U32", "u32", 32, false},
                                                 {"F32", "f32", 32, true},
                                                 {"C64", "c64", 64, false},
                                                 {"F64", "f64", 64, true},
                                                 {"I64", "i64", 64, false},
                                                 {"U64", "u64", 64, false}}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(safetensors_name(dtype), all[i].safetensors);
    EXPECT_EQ(to_string(dtype), all[i].name);
    EXPECT_EQ(size_bits(dtype), all[i].bits) << all[i].name;
    EXPECT_EQ(is_float(dtype), all[i].is_float) << all[i].name;
  }
  EXPECT_EQ(dtype_from_safetensors("F8_E5M2"), DType::f8_e5m2);
  EXPECT_EQ(dtype_from_string("i64"), DType::i64);
  EXPECT_EQ(dtype_from_string(""), std::nullopt);
}

TEST(DType, SizesThatCannotBeAreNamed) {
  const auto refused = [](DType dtype, std::uint64_t elements) {
    return catch_error([&] { packed_bytes(dtype, elements); }).sentence();
  };
  EXPECT_EQ(refused(DType::f4, 3), "3 elements of f4 don't fill the last byte");
  EXPECT_EQ(refused(DType::f6_e2m3, 2), "2 elements of f6_e2m3 don't fill the last byte");
  EXPECT_EQ(refused(DType::u64, std::uint64_t{1} << 58),
            "288230376151711744 elements of u64 don't fit in 64-bit sizes");
  EXPECT_EQ(packed_bytes(DType::u64, (std::uint64_t{1} << 58) - 1), (std::uint64_t{1} << 61) - 8);
}

TEST(Shape, RefusalsNameTheLimit) {
  EXPECT_EQ(catch_error([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }).sentence(),
            "an array has 9 dims; hfshard supports at most 8");
  Shape eight{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_EQ(catch_error([&] { eight.insert(0, 9); }).sentence(), "an array has more than 8 dims");
  EXPECT_EQ(eight, (Shape{1, 2, 3, 4, 5, 6, 7, 8}));
  const std::uint64_t half = std::uint64_t{1} << 32;
  EXPECT_EQ((Shape{half, half - 1}).numel(), half * (half - 1));
  EXPECT_EQ(catch_error([&] {
              (Shape{half, half}).numel();
            }).sentence(),
            "shape 4294967296x4294967296 has more than 2^64 elements");
  Shape two{1, 2};
  EXPECT_EQ(catch_error([&] { two.insert(3, 1); }).code(), ErrorCode::internal);
  two.insert(1, 5);
  EXPECT_EQ(two, (Shape{1, 5, 2}));
  EXPECT_EQ((Shape{3, 0, 2}).strides(), (Shape{0, 2, 1}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
}

}  // namespace
}  // namespace hfshard
