#include "ops/value.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/floats.h"
#include "support/catch_error.h"
#include "unit/ops/reference.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using reference::kFloats;

float widen(DType dtype, const std::byte* at) {
  if (dtype == DType::f32) return load_le<float>(at);
  const auto bits = load_le<std::uint16_t>(at);
  return dtype == DType::bf16 ? bf16_to_f32(bits) : f16_to_f32(bits);
}

void narrow(DType dtype, float value, std::byte* at) {
  if (dtype == DType::f32) return store_le(at, value);
  store_le(at, dtype == DType::bf16 ? f32_to_bf16(value) : f32_to_f16(value));
}

std::vector<std::byte> expected_values(const Value& value, DType from, DType to,
                                       std::span<const std::byte> src) {
  const std::size_t from_bytes = size_bits(from) / 8;
  const std::size_t to_bytes = size_bits(to) / 8;
  std::vector<std::byte> out(src.size() / from_bytes * to_bytes);
  for (std::size_t i = 0; i * from_bytes < src.size(); ++i) {
    float x = widen(from, &src[i * from_bytes]);
    if (value.mul) x = x * *value.mul;
    if (value.add) x = x + *value.add;
    narrow(to, x, &out[i * to_bytes]);
  }
  return out;
}

/// Applies a value between unaligned buffers and compares bits.
void expect_values(const Value& value, DType from, DType to, std::span<const std::byte> src) {
  const std::vector<std::byte> expected = expected_values(value, from, to, src);
  std::vector<std::byte> shifted(src.size() + 1);
  std::copy(src.begin(), src.end(), shifted.begin() + 1);
  std::vector<std::byte> out(expected.size() + 3);
  apply_value(value, from, to, src.size() / (size_bits(from) / 8), std::span(shifted).subspan(1),
              std::span(out).subspan(3));
  ASSERT_TRUE(std::equal(expected.begin(), expected.end(), out.begin() + 3))
      << to_string(from) << " to " << to_string(to);
}

std::vector<std::byte> all_halves() {
  std::vector<std::byte> out(65536 * 2);
  for (std::size_t i = 0; i < 65536; ++i) {
    store_le(&out[2 * i], static_cast<std::uint16_t>(i));
  }
  return out;
}

TEST(ApplyValue, EveryHalfWidensAndComesBack) {
  const std::vector<std::byte> halves = all_halves();
  for (const DType from : {DType::f16, DType::bf16}) {
    for (const DType to : kFloats) {
      if (from != to) expect_values({}, from, to, halves);
      expect_values({.mul = 0.0883883461F, .add = {}}, from, to, halves);
      expect_values({.mul = {}, .add = 1.0F}, from, to, halves);
      expect_values({.mul = -3.25F, .add = 1.0F}, from, to, halves);
    }
  }
}

TEST(ApplyValue, NarrowingRoundsToNearestEvenEverywhere) {
  // Around every half value: the value, the middle to the next one, and the middle's two neighbors.
  std::vector<std::byte> src;
  for (std::uint32_t half = 0; half < 65536; ++half) {
    const std::uint32_t as_f16 =
        std::bit_cast<std::uint32_t>(f16_to_f32(static_cast<std::uint16_t>(half)));
    for (const std::uint32_t bits : {as_f16, half << 16}) {
      for (const std::uint32_t delta :
           {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U, 0x8001U}) {
        src.resize(src.size() + 4);
        store_le(&src[src.size() - 4], bits + delta);
      }
    }
  }
  expect_values({}, DType::f32, DType::f16, src);
  expect_values({}, DType::f32, DType::bf16, src);
}

TEST(ApplyValue, RandomBitsOfEveryLength) {
  std::mt19937_64 random(42);
  for (std::size_t count = 0; count < 1100; count += 1 + count / 16) {
    for (const DType from : kFloats) {
      std::vector<std::byte> src(count * size_bits(from) / 8);
      for (std::byte& byte : src) byte = static_cast<std::byte>(random() & 0xffU);
      for (const DType to : kFloats) expect_values({.mul = 0.5F, .add = 1.0F}, from, to, src);
    }
  }
}

TEST(ApplyValue, EmptyValueOfOneDtypeKeepsEveryBit) {
  const std::vector<std::byte> halves = all_halves();
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::u8, DType::f8_e4m3}) {
    std::vector<std::byte> out(halves.size());
    apply_value({}, dtype, dtype, halves.size() * 8 / size_bits(dtype), halves, out);
    EXPECT_TRUE(out == halves);
  }
}

/// Tests integers around the bounds of exactness against C++ conversions.
template <typename Number>
void expect_integers(DType from) {
  std::vector<Number> numbers = {std::numeric_limits<Number>::min(),
                                 std::numeric_limits<Number>::max()};
  for (const int around : {0, 255, 1 << 24, 1 << 25, -(1 << 24)}) {
    for (const int delta : {-2, -1, 0, 1, 2, 3}) numbers.push_back(around + delta);
  }
  while (numbers.size() < 150) numbers.push_back(static_cast<Number>(numbers.size() * 7919));
  std::vector<std::byte> src(numbers.size() * sizeof(Number) + 1);
  std::vector<std::byte> out(numbers.size() * 4 + 3);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    store_le(&src[1 + i * sizeof(Number)], numbers[i]);
  EXPECT_EQ(apply_value({}, from, DType::f32, numbers.size(), std::span(src).subspan(1),
                        std::span(out).subspan(3)),
            0U);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    ASSERT_EQ(load_le<float>(&out[3 + i * 4]), static_cast<float>(numbers[i])) << numbers[i];
}

template <typename Number>
Number integer_of(float value, DType to) {
  std::vector<std::byte> src(5);
  std::vector<std::byte> out(sizeof(Number) + 3);
  store_le(&src[1], value);
  EXPECT_EQ(
      apply_value({}, DType::f32, to, 1, std::span(src).subspan(1), std::span(out).subspan(3)), 0U);
  return load_le<Number>(&out[3]);
}

// A float that isn't an integer isn't rounded to one, since nobody would see it.
TEST(ApplyValue, F32BecomesOnlyTheIntegerThatItEquals) {
  EXPECT_EQ(integer_of<std::int32_t>(0.0F, DType::i32), 0);
  EXPECT_EQ(integer_of<std::int32_t>(-0.0F, DType::i32), 0);
  EXPECT_EQ(integer_of<std::int32_t>(-257.0F, DType::i32), -257);
  EXPECT_EQ(integer_of<std::int32_t>(2147483520.0F, DType::i32), 2147483520);
  EXPECT_EQ(integer_of<std::int32_t>(-2147483648.0F, DType::i32), -2147483647 - 1);
  EXPECT_EQ(integer_of<std::int64_t>(2147483648.0F, DType::i64), 2147483648);
  EXPECT_EQ(integer_of<std::int64_t>(-9223372036854775808.0F, DType::i64),
            std::numeric_limits<std::int64_t>::min());
  const float infinite = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float value : {0.5F, 3.4999F, -0.4F, 8388607.5F, 2147483648.0F, -2147483904.0F, 1e30F,
                            infinite, -infinite, nan}) {
    EXPECT_EQ(catch_error([&] { integer_of<std::int32_t>(value, DType::i32); }).code(),
              ErrorCode::bad_input)
        << value;
  }
  for (const float value : {9223372036854775808.0F, -9223373136366403584.0F, nan}) {
    EXPECT_EQ(catch_error([&] { integer_of<std::int64_t>(value, DType::i64); }).code(),
              ErrorCode::bad_input)
        << value;
  }
}

TEST(ApplyValue, IntegersBecomeF32) {
  expect_integers<std::int32_t>(DType::i32);
  expect_integers<std::int64_t>(DType::i64);
  for (const DType to : {DType::bf16, DType::f16, DType::i32})
    EXPECT_FALSE(can_apply_value({}, DType::i64, to));
  EXPECT_FALSE(can_apply_value({.mul = 2.0F, .add = {}}, DType::i64, DType::f32));
  EXPECT_FALSE(can_apply_value({}, DType::u8, DType::f32));
}

/// Returns apply_value's result for one f64, and counts an overflow in `overflows`.
std::uint32_t from_f64(double value, DType to, std::uint64_t& overflows, const Value& rule = {}) {
  std::array<std::byte, 8> src{};
  std::array<std::byte, 4> dst{};
  store_le(src.data(), value);
  overflows += apply_value(rule, DType::f64, to, 1, src, std::span(dst).first(size_bits(to) / 8));
  return load_le<std::uint32_t>(dst.data());
}

/// Tests values between each number of a dtype and the next one: the nearer number, and the middle,
/// which rounds to even. `infinity` has the bits of infinity.
void expect_rounding(DType to, std::uint32_t first, std::uint32_t infinity,
                     double (*number)(std::uint32_t)) {
  const std::uint32_t sign = std::uint32_t{1} << (size_bits(to) - 1);
  for (std::uint32_t low = first; low < std::min(infinity, first + 65536); ++low) {
    const double below = number(low);
    // Rounding has no bound: the value after the largest number acts as infinity.
    const double above = low + 1 == infinity ? below + (below - number(low - 1)) : number(low + 1);
    const double middle = below + (above - below) / 2;  // exact in f64
    std::uint64_t overflows = 0;
    const auto expect = [&](double value, std::uint32_t bits) {
      ASSERT_EQ(from_f64(value, to, overflows), bits) << to_string(to) << " " << value;
      ASSERT_EQ(from_f64(-value, to, overflows), bits | sign) << to_string(to) << " " << -value;
    };
    expect(below, low);
    expect(std::nextafter(middle, below), low);
    expect(middle, low % 2 == 0 ? low : low + 1);
    expect(std::nextafter(middle, above), low + 1);
    ASSERT_EQ(overflows, low + 1 == infinity ? 4U : 0U);
  }
}

TEST(ApplyValue, F64IsRoundedOnce) {
  expect_rounding(DType::bf16, 0, 0x7f80, [](std::uint32_t bits) {
    return static_cast<double>(bf16_to_f32(static_cast<std::uint16_t>(bits)));
  });
  expect_rounding(DType::f16, 0, 0x7c00, [](std::uint32_t bits) {
    return static_cast<double>(f16_to_f32(static_cast<std::uint16_t>(bits)));
  });
  for (const std::uint32_t first : {0U, 0x007f8000U, 0x3f7f8000U, 0x7f7f8000U}) {
    expect_rounding(DType::f32, first, 0x7f800000, [](std::uint32_t bits) {
      return static_cast<double>(std::bit_cast<float>(bits));
    });
  }
}

TEST(ApplyValue, F64ThatIsNoOrdinaryNumber) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kLeast = std::numeric_limits<double>::denorm_min();
  constexpr double kMost = std::numeric_limits<double>::max();
  std::uint64_t overflows = 0;
  EXPECT_EQ(from_f64(kInf, DType::bf16, overflows), 0x7f80U);
  EXPECT_EQ(from_f64(-kInf, DType::f16, overflows), 0xfc00U);
  EXPECT_EQ(from_f64(kInf, DType::f32, overflows), 0x7f800000U);
  EXPECT_EQ(from_f64(-kLeast, DType::bf16, overflows), 0x8000U);
  EXPECT_EQ(from_f64(-0.0, DType::f32, overflows), 0x80000000U);
  EXPECT_EQ(overflows, 0U);
  EXPECT_EQ(from_f64(kMost, DType::bf16, overflows), 0x7f80U);
  EXPECT_EQ(from_f64(-kMost, DType::f16, overflows), 0xfc00U);
  EXPECT_EQ(from_f64(kMost, DType::f32, overflows), 0x7f800000U);
  EXPECT_EQ(overflows, 3U);
  // NaNs stay NaNs, including those whose payload is in bits that f32 lacks.
  for (const std::uint64_t bits : {0x7ff0000000000001U, 0x7ff8000000000000U, 0xfff7ffffffffffffU}) {
    const auto nan = std::bit_cast<double>(bits);
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(from_f64(nan, DType::f32, overflows))));
    EXPECT_GT(from_f64(nan, DType::bf16, overflows) & 0x7fffU, 0x7f80U);
    EXPECT_GT(from_f64(nan, DType::f16, overflows) & 0x7fffU, 0x7c00U);
  }
  EXPECT_EQ(overflows, 3U);
}

TEST(ApplyValue, RulesComputeInF64) {
  std::uint64_t overflows = 0;
  // 1 + 2^-30 is 1 in f32, and 2^-30 is left of it in f64.
  const Value less_one{.mul = {}, .add = -1.0F};
  EXPECT_EQ(from_f64(1 + 0x1p-30, DType::f32, overflows, less_one),
            std::bit_cast<std::uint32_t>(0x1p-30F));
  const Value twice{.mul = 2.0F, .add = {}};
  EXPECT_EQ(from_f64(0x1.01p-1 + 0x1p-40, DType::bf16, overflows, twice), 0x3f81U);
}

TEST(ApplyValue, OtherPairsAreUnsupportedByName) {
  std::vector<std::byte> src(8);
  std::vector<std::byte> dst(8);
  try {
    apply_value({.mul = 2.0F, .add = {}}, DType::i32, DType::bf16, 2, src, dst);
    FAIL() << "computed integers";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.sentence().find("i32"), std::string::npos);
    EXPECT_NE(error.sentence().find("bf16"), std::string::npos);
  }
  EXPECT_FALSE(can_apply_value({.mul = 2.0F, .add = {}}, DType::f8_e4m3, DType::f8_e4m3));
  EXPECT_FALSE(can_apply_value({}, DType::bf16, DType::f64));
  EXPECT_TRUE(can_apply_value({}, DType::f64, DType::f64));
  EXPECT_TRUE(can_apply_value({}, DType::bf16, DType::f32));
  EXPECT_THROW(apply_value({}, DType::bf16, DType::f32, 3, src, dst), Error);
}

}  // namespace
}  // namespace hfshard
