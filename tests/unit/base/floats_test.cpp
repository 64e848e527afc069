#include "base/floats.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

// The definition of IEEE half, in double arithmetic.
double half_value(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_nan_or_infinity(std::uint16_t bits) { return (bits & 0x7c00) == 0x7c00; }

TEST(Floats, EveryHalfReadsAsItsValueAndComesBack) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = f16_to_f32(bits);
    if (is_nan_or_infinity(bits)) {
      ASSERT_EQ(std::isnan(value), (bits & 1023) != 0) << i;
      ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << i;
      if (std::isnan(value)) {
        ASSERT_EQ(f32_to_f16(value), bits | 0x200) << i;  // made quiet
        continue;
      }
    } else {
      ASSERT_EQ(static_cast<double>(value), half_value(bits)) << i;
    }
    ASSERT_EQ(f32_to_f16(value), bits) << i;
  }
}

// A value between two neighbors rounds to the nearer one, and in the middle to the even one.
TEST(Floats, HalvesRoundToNearestEven) {
  for (std::uint32_t i = 0; i < 0x7bff; ++i) {
    const auto low = static_cast<std::uint16_t>(i);
    const auto high = static_cast<std::uint16_t>(i + 1);
    const auto middle = static_cast<float>((half_value(low) + half_value(high)) / 2);
    const std::uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f32_to_f16(middle), even) << i;
    ASSERT_EQ(f32_to_f16(-middle), even | 0x8000) << i;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0.0F)), low) << i;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 1e9F)), high) << i;
  }
}

TEST(Floats, HalvesOverflowToInfinityAndUnderflowToZero) {
  EXPECT_EQ(f32_to_f16(65519.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(-0.0F), 0x8000);
}

TEST(Floats, Bf16IsTheUpperHalfAndRoundsToNearestEven) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const bool is_nan = (bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0;
    ASSERT_EQ(f32_to_bf16(bf16_to_f32(bits)), is_nan ? bits | 0x40 : bits) << i;
  }
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace hfshard
