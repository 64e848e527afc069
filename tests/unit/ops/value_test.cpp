#include "ops/value.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/coding.h"
#include "base/floats.h"
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

/// Applies between unaligned buffers and compares bits.
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
  // Around every half value: the value, the middle to the next one, and the two neighbours of the
  // middle.
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

/// Integers around the bounds of exactness, and what a conversion of C++ makes of each.
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

TEST(ApplyValue, IntegersBecomeF32) {
  expect_integers<std::int32_t>(DType::i32);
  expect_integers<std::int64_t>(DType::i64);
  for (const DType to : {DType::bf16, DType::f16, DType::i32})
    EXPECT_FALSE(can_apply_value({}, DType::i64, to));
  EXPECT_FALSE(can_apply_value({.mul = 2.0F, .add = {}}, DType::i64, DType::f32));
  EXPECT_FALSE(can_apply_value({}, DType::u8, DType::f32));
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
  EXPECT_FALSE(can_apply_value({}, DType::f64, DType::f32));
  EXPECT_TRUE(can_apply_value({}, DType::f64, DType::f64));
  EXPECT_TRUE(can_apply_value({}, DType::bf16, DType::f32));
  EXPECT_THROW(apply_value({}, DType::bf16, DType::f32, 3, src, dst), Error);
}

}  // namespace
}  // namespace hfshard
