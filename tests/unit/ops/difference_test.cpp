#include "ops/difference.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

template <typename Number>
std::vector<std::byte> numbers_as_bytes(std::initializer_list<Number> numbers) {
  std::vector<std::byte> out(numbers.size() * sizeof(Number));
  std::memcpy(out.data(), std::data(numbers), out.size());
  return out;
}

constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

ElementDifferences of_f32(std::initializer_list<float> a, std::initializer_list<float> b,
                          const DiffTolerance& tolerance = {}) {
  return compare_elements(DType::f32, tolerance, numbers_as_bytes(a), numbers_as_bytes(b));
}

TEST(CompareElements, EqualBitsAreEqual) {
  EXPECT_EQ(of_f32({1, kNotANumber, -0.0F, kInfinite}, {1, kNotANumber, -0.0F, kInfinite}).count,
            0U);
}

TEST(CompareElements, TellsTheFirstAndTheLargest) {
  const ElementDifferences found = of_f32({1, 2, 3, 4}, {1, 2.5F, 3, std::nextafter(4.0F, 5.0F)});
  EXPECT_EQ(found.count, 2U);
  EXPECT_EQ(found.first, 1U);
  EXPECT_EQ(found.largest_absolute, 0.5);
  EXPECT_EQ(found.largest_ulps, 0x200000U);
  EXPECT_EQ(found.by_ulps.front(), 1U);
  EXPECT_EQ(found.by_ulps.back(), 1U);
}

// Equal blocks are skipped, but indices still count from the front.
TEST(CompareElements, OfManyElementsTheOneIsFound) {
  constexpr std::size_t kCount = 10000;
  for (const std::size_t at : {std::size_t{0}, std::size_t{2047}, std::size_t{2048}, kCount - 1}) {
    std::vector<std::byte> a(kCount * 2);
    std::vector<std::byte> b = a;
    b[at * 2] = std::byte{1};
    const ElementDifferences found = compare_elements(DType::bf16, {}, a, b);
    EXPECT_EQ(found.count, 1U);
    EXPECT_EQ(found.first, at);
    EXPECT_EQ(found.largest_ulps, 1U);
  }
}

TEST(CompareElements, ZerosOfBothSignsDifferInBitsAndAreNoneApart) {
  const ElementDifferences found = of_f32({0.0F}, {-0.0F});
  EXPECT_EQ(found.count, 1U);
  EXPECT_EQ(found.largest_ulps, 0U);
  EXPECT_EQ(found.largest_absolute, 0.0);
  EXPECT_EQ(of_f32({0.0F}, {-0.0F}, {.ulps = 0}).count, 0U);
}

TEST(CompareElements, AcrossZeroUlpsAreCountedThrough) {
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(of_f32({least}, {-least}).largest_ulps, 2U);
}

TEST(CompareElements, NansAreCountedApartFromNumbers) {
  const float other = std::bit_cast<float>(std::bit_cast<std::uint32_t>(kNotANumber) + 1);
  const ElementDifferences found = of_f32({kNotANumber, 1, kNotANumber}, {1, kNotANumber, other});
  EXPECT_EQ(found.count, 3U);
  EXPECT_EQ(found.left_nans, 2U);
  EXPECT_EQ(found.right_nans, 2U);
  EXPECT_EQ(found.largest_absolute, 0.0);
  EXPECT_EQ(of_f32({kNotANumber, 1, kNotANumber}, {1, kNotANumber, other}, {.absolute = 1e9}).count,
            2U);
}

TEST(CompareElements, TheToleranceIsTheLastThatIsEqual) {
  EXPECT_EQ(of_f32({1, 1}, {1.25F, 1.5F}, {.absolute = 0.25}).count, 1U);
  const float next = std::nextafter(1.0F, 2.0F);
  const float second = std::nextafter(next, 2.0F);
  EXPECT_EQ(of_f32({1, 1}, {next, second}, {.ulps = 1}).count, 1U);
  EXPECT_EQ(of_f32({1, 1}, {next, second}, {.ulps = 2}).count, 0U);
  EXPECT_EQ(of_f32({kInfinite}, {1}, {.absolute = 1e300}).count, 1U);
}

TEST(CompareElements, WholeNumbersAreTheirDifferenceApart) {
  const auto found =
      compare_elements(DType::i64, {}, numbers_as_bytes<std::int64_t>({INT64_MIN, 5}),
                       numbers_as_bytes<std::int64_t>({INT64_MAX, 5}));
  EXPECT_EQ(found.count, 1U);
  EXPECT_EQ(found.largest_ulps, UINT64_MAX);
  EXPECT_EQ(compare_elements(DType::u8, {}, numbers_as_bytes<std::uint8_t>({255}),
                             numbers_as_bytes<std::uint8_t>({0}))
                .largest_absolute,
            255.0);
  EXPECT_EQ(compare_elements(DType::i8, {}, numbers_as_bytes<std::int8_t>({-1}),
                             numbers_as_bytes<std::int8_t>({1}))
                .largest_ulps,
            2U);
  EXPECT_EQ(compare_elements(DType::i16, {}, numbers_as_bytes<std::int16_t>({INT16_MIN, 7}),
                             numbers_as_bytes<std::int16_t>({INT16_MAX, 7}))
                .largest_absolute,
            65535.0);
  const auto unsigned_16 =
      compare_elements(DType::u16, {}, numbers_as_bytes<std::uint16_t>({7, UINT16_MAX}),
                       numbers_as_bytes<std::uint16_t>({7, 0}));
  EXPECT_EQ(unsigned_16.first, 1U);
  EXPECT_EQ(unsigned_16.largest_ulps, 65535U);
}

TEST(CompareElements, WholeNumbersThatOneDoubleStandsFor) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 62;
  const auto a = numbers_as_bytes<std::int64_t>({kLarge});
  const auto b = numbers_as_bytes<std::int64_t>({kLarge + 1});
  EXPECT_EQ(compare_elements(DType::i64, {.absolute = 0.0}, a, b).count, 1U);
  EXPECT_EQ(compare_elements(DType::i64, {.absolute = 0.5}, a, b).count, 1U);
  EXPECT_EQ(compare_elements(DType::i64, {.absolute = 1.0}, a, b).count, 0U);
}

TEST(CompareElements, InfinityIsNearNoNumber) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(of_f32({largest}, {kInfinite}, {.ulps = 1}).count, 1U);
  EXPECT_EQ(of_f32({largest}, {std::nextafter(largest, 0.0F)}, {.ulps = 1}).count, 0U);
}

TEST(CompareElements, ComplexNumbersAreNumberedAsSuch) {
  EXPECT_EQ(compare_elements(DType::c64, {}, numbers_as_bytes<float>({1, 2, 3, 4}),
                             numbers_as_bytes<float>({1, 2, 3, 5}))
                .first,
            1U);
}

// Every code of the 8-bit kinds. ulps count the values between, for any format's exponents.
TEST(CompareElements, NeighborsOfEveryKindAreOneApart) {
  for (const DType dtype :
       {DType::f8_e4m3, DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz, DType::f8_e8m0}) {
    for (std::uint8_t code = 1; code < 0x78; ++code) {
      const auto next = static_cast<std::uint8_t>(code + 1);
      const auto found = compare_elements(dtype, {}, numbers_as_bytes<std::uint8_t>({code}),
                                          numbers_as_bytes<std::uint8_t>({next}));
      EXPECT_EQ(found.largest_ulps, 1U) << to_string(dtype) << " " << int{code};
      EXPECT_GT(found.largest_absolute, 0.0) << to_string(dtype) << " " << int{code};
    }
  }
}

// Its only NaN has the bits of a negative zero, and it has no infinity.
TEST(CompareElements, TheEndsOfAKindWithoutNegativeZero) {
  const auto of = [](std::uint8_t a, std::uint8_t b) {
    return compare_elements(DType::f8_e5m2fnuz, {}, numbers_as_bytes<std::uint8_t>({a}),
                            numbers_as_bytes<std::uint8_t>({b}));
  };
  EXPECT_EQ(of(0x00, 0x01).largest_absolute, std::ldexp(1.0, -17));  // the least
  EXPECT_EQ(of(0x00, 0x03).largest_absolute, 3 * std::ldexp(1.0, -17));
  EXPECT_EQ(of(0x03, 0x04).largest_absolute, std::ldexp(1.0, -17));  // the least normal number
  EXPECT_EQ(of(0x00, 0x7f).largest_absolute, 57344.0);               // the largest
  EXPECT_EQ(of(0x7f, 0xff).largest_absolute, 2 * 57344.0);
  EXPECT_EQ(of(0x81, 0x01).largest_ulps, 2U);
  EXPECT_EQ(of(0x80, 0x00).left_nans, 1U);
  EXPECT_EQ(of(0x00, 0x80).right_nans, 1U);
  EXPECT_EQ(of(0x80, 0x01).largest_ulps, 0U);
  EXPECT_EQ(of(0x80, 0x80).count, 0U);
}

TEST(CompareElements, PartsAddUp) {
  ElementDifferences a = of_f32({1, kNotANumber}, {1.5F, 1});
  ElementDifferences b = of_f32({4, 2}, {kNotANumber, std::nextafter(2.0F, 3.0F)});
  a.first = 7;
  b.first = 3;
  for (const auto& [left, right] : {std::pair(a, b), std::pair(b, a)}) {
    ElementDifferences sum = left;
    sum += right;
    EXPECT_EQ(sum.count, 4U);
    EXPECT_EQ(sum.first, 3U);
    EXPECT_EQ(sum.left_nans, 1U);
    EXPECT_EQ(sum.right_nans, 1U);
    EXPECT_EQ(sum.largest_absolute, 0.5);
    EXPECT_EQ(sum.largest_ulps, 0x400000U);
    EXPECT_EQ(sum.by_ulps.front(), 1U);
    EXPECT_EQ(sum.by_ulps.back(), 1U);
  }
}

TEST(CompareElements, EqualComplexNumbersHaveNoFirstDifference) {
  const std::vector<std::byte> pair = numbers_as_bytes<float>({1, 2});
  EXPECT_EQ(compare_elements(DType::c64, {}, pair, pair).first, UINT64_MAX);
}

TEST(CompareElements, UlpsAreCountedInClassesUpToTheirBounds) {
  const auto kind = [](std::int32_t apart) {
    const auto found = compare_elements(DType::i32, {}, numbers_as_bytes<std::int32_t>({0}),
                                        numbers_as_bytes<std::int32_t>({apart}));
    EXPECT_EQ(found.largest_ulps, static_cast<std::uint64_t>(apart));
    std::size_t out = found.by_ulps.size();
    for (std::size_t i = 0; i < found.by_ulps.size(); ++i) {
      if (found.by_ulps[i] == 1) out = i;
    }
    return out;
  };
  for (std::size_t i = 0; i < kUlpSteps.size(); ++i) {
    const auto most = static_cast<std::int32_t>(kUlpSteps[i]);
    EXPECT_EQ(kind(most), i);
    EXPECT_EQ(kind(most + 1), i + 1);
  }
}

TEST(CompareElements, EachDtypeHasItsOwnNumbers) {
  const auto apart = [](DType dtype, std::uint16_t a, std::uint16_t b) {
    return compare_elements(dtype, {}, numbers_as_bytes<std::uint16_t>({a}),
                            numbers_as_bytes<std::uint16_t>({b}))
        .largest_absolute;
  };
  EXPECT_EQ(apart(DType::bf16, 0x3f80, 0x4000), 1.0);
  EXPECT_EQ(apart(DType::f16, 0x3c00, 0x4000), 1.0);
  const auto bytes_apart = [](DType dtype, std::uint8_t a, std::uint8_t b) {
    return compare_elements(dtype, {}, numbers_as_bytes<std::uint8_t>({a}),
                            numbers_as_bytes<std::uint8_t>({b}))
        .largest_absolute;
  };
  EXPECT_EQ(bytes_apart(DType::f8_e4m3, 0x38, 0x40), 1.0);
  EXPECT_EQ(bytes_apart(DType::f8_e5m2, 0x3c, 0x40), 1.0);
  EXPECT_EQ(bytes_apart(DType::f8_e4m3fnuz, 0x40, 0x48), 1.0);
  EXPECT_EQ(bytes_apart(DType::f8_e5m2fnuz, 0x40, 0x44), 1.0);
  EXPECT_EQ(bytes_apart(DType::f8_e8m0, 127, 128), 1.0);
  EXPECT_EQ(bytes_apart(DType::boolean, 0, 1), 1.0);
  const auto wide = compare_elements(DType::f64, {}, numbers_as_bytes<double>({1.0, 0.0}),
                                     numbers_as_bytes<double>({1.5, 0.0}));
  EXPECT_EQ(wide.largest_absolute, 0.5);
  EXPECT_EQ(wide.count, 1U);
}

TEST(ElementText, ReadsBackAsItIs) {
  EXPECT_EQ(element_text(DType::f32, numbers_as_bytes<float>({0.1F})), "0.1");
  EXPECT_EQ(element_text(DType::f64, numbers_as_bytes<double>({0.1})), "0.1");
  EXPECT_EQ(element_text(DType::f64, numbers_as_bytes<double>({0.1 + 0.2})), "0.30000000000000004");
  EXPECT_EQ(element_text(DType::f64, numbers_as_bytes<double>({1e300})), "1e+300");
  EXPECT_EQ(element_text(DType::bf16, numbers_as_bytes<std::uint16_t>({0x3f80})), "1");
  EXPECT_EQ(element_text(DType::f16, numbers_as_bytes<std::uint16_t>({0xfc00})), "-inf");
  EXPECT_EQ(element_text(DType::f8_e4m3, numbers_as_bytes<std::uint8_t>({0x7f})), "nan");
  EXPECT_EQ(element_text(DType::f8_e4m3fnuz, numbers_as_bytes<std::uint8_t>({0x40})), "1");
  EXPECT_EQ(element_text(DType::f8_e5m2fnuz, numbers_as_bytes<std::uint8_t>({0x80})), "nan");
  EXPECT_EQ(element_text(DType::f8_e5m2fnuz, numbers_as_bytes<std::uint8_t>({0xff})), "-57344");
  EXPECT_EQ(element_text(DType::f8_e8m0, numbers_as_bytes<std::uint8_t>({127})), "1");
  EXPECT_EQ(element_text(DType::i8, numbers_as_bytes<std::int8_t>({-7})), "-7");
  EXPECT_EQ(element_text(DType::i16, numbers_as_bytes<std::int16_t>({-7})), "-7");
  EXPECT_EQ(element_text(DType::i32, numbers_as_bytes<std::int32_t>({-7})), "-7");
  EXPECT_EQ(element_text(DType::i64, numbers_as_bytes<std::int64_t>({-7})), "-7");
  EXPECT_EQ(element_text(DType::u64, numbers_as_bytes<std::uint64_t>({UINT64_MAX})),
            "18446744073709551615");
  EXPECT_EQ(element_text(DType::boolean, numbers_as_bytes<std::uint8_t>({1})), "true");
  EXPECT_EQ(element_text(DType::c64, numbers_as_bytes<float>({1, -2})), "(1, -2)");
}

}  // namespace
}  // namespace hfshard
