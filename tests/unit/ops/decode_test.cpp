#include "ops/decode.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/floats.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

std::vector<std::byte> floats(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 4);
  for (std::size_t i = 0; i < values.size(); ++i) store_le(&out[4 * i], values[i]);
  return out;
}

// Returns all values of one call, as f32.
std::vector<float> decoded(const BlockScale& form, std::uint64_t count,
                           const std::vector<std::byte>& codes,
                           const std::vector<std::byte>& scales) {
  std::vector<std::byte> out(count * 4);
  std::uint64_t overflows = 0;
  apply_decode(form, {}, DType::f32, 0, count, codes, scales, out, overflows);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = load_le<float>(&out[4 * i]);
  return values;
}

BlockScale row_form(Code code, std::uint64_t cols) { return {code, DType::f32, 1, cols, 1, cols}; }

// Values of the OCP 8-bit floating point specification, tables 1 and 2, and of the microscaling
// specification, table 5.
TEST(Decode, CodesHaveTheValuesOfTheirSpecification) {
  const std::vector<float> e4m3 =
      decoded(row_form(Code::f8_e4m3, 8), 8,
              bytes_of({0x00, 0x80, 0x01, 0x07, 0x08, 0x38, 0x7e, 0xfe}), floats({1}));
  EXPECT_EQ(e4m3, (std::vector<float>{0, -0.0F, 0x1p-9F, 7 * 0x1p-9F, 0x1p-6F, 1, 448, -448}));
  EXPECT_TRUE(std::signbit(e4m3[1]));
  const std::vector<float> e5m2 =
      decoded(row_form(Code::f8_e5m2, 7), 7, bytes_of({0x01, 0x03, 0x04, 0x3c, 0x7b, 0x7c, 0xfc}),
              floats({1}));
  EXPECT_EQ(e5m2, (std::vector<float>{0x1p-16F, 3 * 0x1p-16F, 0x1p-14F, 1, 57344, kInfinity,
                                      -kInfinity}));
  const std::vector<float> e2m1 =
      decoded(row_form(Code::f4_e2m1, 16), 16,
              bytes_of({0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}), floats({1}));
  EXPECT_EQ(e2m1, (std::vector<float>{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3,
                                      -4, -6}));
  const std::vector<float> int4 =
      decoded(row_form(Code::int4, 4), 4, bytes_of({0x80, 0x7f}), floats({0.5F}));
  EXPECT_EQ(int4, (std::vector<float>{-4, 0, 3.5F, -0.5F}));
}

TEST(Decode, NanCodesAndScalesGiveNan) {
  for (const int code : {0x7f, 0xff}) {
    EXPECT_TRUE(
        std::isnan(decoded(row_form(Code::f8_e4m3, 1), 1, bytes_of({code}), floats({1}))[0]));
  }
  for (const int code : {0x7d, 0x7f, 0xfe}) {
    EXPECT_TRUE(
        std::isnan(decoded(row_form(Code::f8_e5m2, 1), 1, bytes_of({code}), floats({1}))[0]));
  }
  EXPECT_TRUE(
      std::isnan(decoded(row_form(Code::f8_e4m3, 1), 1, bytes_of({0x38}), floats({kNan}))[0]));
}

TEST(Decode, ExponentScalesArePowersOfTwo) {
  BlockScale form{Code::f8_e4m3, DType::u8, 1, 4, 1, 1};
  const std::vector<std::byte> ones(4, std::byte{0x38});
  EXPECT_EQ(decoded(form, 4, ones, bytes_of({0, 126, 127, 255})),
            (std::vector<float>{0x1p-127F, 0.5F, 1, kInfinity}));
  form.scale_dtype = DType::f8_e8m0;
  EXPECT_TRUE(std::isnan(decoded(form, 4, ones, bytes_of({0, 126, 127, 255}))[3]));
}

// One multiplication in f32, then one rounding to the target.
TEST(Decode, RoundsTheProductOnce) {
  const BlockScale form{Code::f8_e4m3, DType::f32, 1, 256, 1, 1};
  std::vector<std::byte> codes;
  std::vector<float> factors;
  for (int code = 0; code < 256; ++code) {
    codes.push_back(static_cast<std::byte>(code));
    factors.push_back(0.1F * static_cast<float>(code + 1));
  }
  const std::vector<float> plain = decoded(row_form(Code::f8_e4m3, 256), 256, codes, floats({1}));
  std::vector<std::byte> out(512);
  std::uint64_t overflows = 0;
  apply_decode(form, {3.0F, std::nullopt}, DType::bf16, 0, 256, codes, floats(factors), out,
               overflows);
  for (std::size_t i = 0; i < 256; ++i) {
    if (std::isnan(plain[i])) continue;
    EXPECT_EQ(load_le<std::uint16_t>(&out[2 * i]), f32_to_bf16(plain[i] * factors[i] * 3.0F));
  }
}

struct FormCase {
  Code code;
  std::uint64_t stack, rows, cols, row_block, col_block;
};

// Blocks that divide and others, several matrices, runs that begin and end anywhere.
TEST(Decode, RunsAgreeWithTheDefinition) {
  std::mt19937 random(7);
  for (const FormCase& item :
       {FormCase{Code::f8_e4m3, 1, 300, 7, 128, 3}, FormCase{Code::f8_e4m3, 2, 5, 700, 2, 128},
        FormCase{Code::f4_e2m1, 3, 4, 96, 1, 32}, FormCase{Code::int4, 1, 9, 64, 1, 32},
        FormCase{Code::f8_e5m2, 3, 4, 5, 12, 5}, FormCase{Code::f8_e4m3, 1, 1, 2000, 1, 128}}) {
    const BlockScale form{item.code, DType::f32,     item.rows,
                          item.cols, item.row_block, item.col_block};
    const std::uint64_t numel = item.stack * item.rows * item.cols;
    const std::uint64_t bits = code_bits(item.code);
    std::vector<std::byte> codes(ceil_div(numel * bits, 8));
    for (std::byte& code : codes) code = static_cast<std::byte>(random() & 0x77U);
    std::vector<float> factors(item.stack * form.scales_per_matrix());
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<float>(i + 1);
    const std::vector<float> plain = decoded(row_form(item.code, numel), numel, codes, floats({1}));
    for (int trial = 0; trial < 50; ++trial) {
      std::uint64_t begin = random() % numel;
      if (bits == 4) begin -= begin % 2;
      const std::uint64_t count = 1 + random() % (numel - begin);
      const ScaleRange range = scale_range(form, begin, count);
      ASSERT_LE(range.count, most_scales(form, count));
      ASSERT_LE(range.first + range.count, factors.size());
      std::vector<std::byte> out(count * 4);
      std::uint64_t overflows = 0;
      const std::vector<std::byte> scales = floats(factors);
      apply_decode(form, {}, DType::f32, begin, count,
                   std::span(codes).subspan(begin * bits / 8, ceil_div(count * bits, 8)),
                   std::span(scales).subspan(range.first * 4, range.count * 4), out, overflows);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t row = (begin + i) / item.cols;
        const std::uint64_t scale = row / item.rows * form.scales_per_matrix() +
                                    row % item.rows / item.row_block * form.scales_per_row() +
                                    (begin + i) % item.cols / item.col_block;
        ASSERT_EQ(load_le<float>(&out[4 * i]), plain[begin + i] * factors[scale]);
      }
    }
  }
}

TEST(Decode, CountsWhatBecomesInfinite) {
  const BlockScale form = row_form(Code::f8_e4m3, 3);
  std::vector<std::byte> out(6);
  std::uint64_t overflows = 5;
  apply_decode(form, {}, DType::f16, 0, 3, bytes_of({0x7e, 0x38, 0x7f}), floats({1000}), out,
               overflows);
  EXPECT_EQ(overflows, 6U);
  EXPECT_EQ(load_le<std::uint16_t>(out.data()), 0x7c00);
}

// Counts the finite values of a call that overflow its target, by the definition. A value is a code
// times its scale times the factor, each rounded to f32.
std::uint64_t overflows_by_hand(const BlockScale& form, DType to, float factor, std::uint64_t begin,
                                std::uint64_t count, const std::vector<float>& codes,
                                const std::vector<float>& scales) {
  std::uint64_t out = 0;
  for (std::uint64_t i = begin; i < begin + count; ++i) {
    const std::uint64_t row = i / form.cols;
    const float value = codes[i] * scales[row / form.rows * form.scales_per_matrix() +
                                          row % form.rows / form.row_block * form.scales_per_row() +
                                          i % form.cols / form.col_block];
    const float product = value * factor;
    const float rounded = to == DType::f32    ? product
                          : to == DType::bf16 ? bf16_to_f32(f32_to_bf16(product))
                                              : f16_to_f32(f32_to_f16(product));
    out += std::isfinite(value) && std::isinf(rounded);
  }
  return out;
}

// A wrong count would mislead users about f16. Tests bytes and nibbles, short and long runs of one
// scale, and runs that begin at either nibble of a byte.
TEST(Decode, CountsEachValueThatBecomesInfiniteOnce) {
  std::mt19937 random(11);
  std::uint64_t seen = 0;
  std::uint64_t unlike = 0;
  for (const FormCase& item :
       {FormCase{Code::f4_e2m1, 2, 3, 64, 1, 32}, FormCase{Code::int4, 1, 5, 26, 2, 3},
        FormCase{Code::f4_e2m1, 1, 4, 200, 3, 67}, FormCase{Code::f8_e4m3, 2, 5, 150, 2, 70},
        FormCase{Code::f8_e5m2, 1, 3, 31, 1, 5}}) {
    const BlockScale form{item.code, DType::f32,     item.rows,
                          item.cols, item.row_block, item.col_block};
    const std::uint64_t numel = item.stack * item.rows * item.cols;
    const std::uint64_t bits = code_bits(item.code);
    std::vector<std::byte> codes(ceil_div(numel * bits, 8));
    for (std::byte& code : codes) code = static_cast<std::byte>(random());
    const std::vector<float> plain = decoded(row_form(item.code, numel), numel, codes, floats({1}));
    for (const auto& [to, large] :
         {std::pair{DType::f16, 3e4F}, {DType::bf16, 2e38F}, {DType::f32, 2e38F}}) {
      std::vector<float> factors(item.stack * form.scales_per_matrix());
      for (float& factor : factors) factor = random() % 2 == 0 ? 0.5F : large;
      const std::vector<std::byte> scales = floats(factors);
      for (int trial = 0; trial < 20; ++trial) {
        std::uint64_t begin = random() % numel;
        if (bits == 4) begin -= begin % 2;
        const std::uint64_t count = 1 + random() % (numel - begin);
        const ScaleRange range = scale_range(form, begin, count);
        const float factor = trial % 2 == 0 ? 1.0F : 3.0F;
        std::vector<std::byte> out(packed_bytes(to, count));
        std::uint64_t overflows = 7;
        apply_decode(form, {factor, std::nullopt}, to, begin, count,
                     std::span(codes).subspan(begin * bits / 8, ceil_div(count * bits, 8)),
                     std::span(scales).subspan(range.first * 4, range.count * 4), out, overflows);
        const std::uint64_t wanted =
            overflows_by_hand(form, to, factor, begin, count, plain, factors);
        ASSERT_EQ(overflows, 7 + wanted) << to_string(item.code) << " as " << to_string(to);
        seen += wanted;
        unlike += wanted != count && wanted != 0;
      }
    }
  }
  EXPECT_GT(seen, 1000U);
  EXPECT_GT(unlike, 100U);
}

TEST(Decode, BytesAreIntegersInTwoWays) {
  EXPECT_EQ(decoded(row_form(Code::int8, 4), 4, bytes_of({0x00, 0x7f, 0x80, 0xff}), floats({0.5F})),
            (std::vector<float>{0, 63.5F, -64, -0.5F}));
  EXPECT_EQ(
      decoded(row_form(Code::uint8, 4), 4, bytes_of({0x80, 0xff, 0x00, 0x7f}), floats({0.5F})),
      (std::vector<float>{0, 63.5F, -64, -0.5F}));
}

// A factor changes the scale in f32, before the product is rounded.
TEST(Decode, AFactorChangesTheScales) {
  BlockScale form = row_form(Code::f4_e2m1, 2);
  form.scale_dtype = DType::f8_e4m3;
  const std::vector<std::byte> codes = bytes_of({0x75});  // 3, 6
  const std::vector<std::byte> scale = bytes_of({0x39});  // 1.125
  for (const Factor factor : {Factor::multiplies, Factor::divides}) {
    form.factor = factor;
    std::vector<std::byte> out(8);
    std::uint64_t overflows = 0;
    apply_decode(form, {}, DType::f32, 0, 2, codes, Scales{scale, {}, 3.3F}, out, overflows);
    const float whole = factor == Factor::divides ? 1.125F / 3.3F : 1.125F * 3.3F;
    EXPECT_EQ(load_le<float>(out.data()), 3.0F * whole);
    EXPECT_EQ(load_le<float>(&out[4]), 6.0F * whole);
  }
}

// compressed-tensors rounds twice if scales are f16: first to f16, then to bf16.
TEST(Decode, HalvesAreRoundedTwiceOnTheirWayToBf16) {
  BlockScale form = row_form(Code::int8, 3);
  form.rounds_to_half = true;
  const std::vector<std::byte> codes = bytes_of({1, 3, 127});
  const float scale = 3.0000001e-6F;  // products that are subnormal halves
  std::size_t unlike = 0;
  for (const float factor : {1.0F, 0.3F}) {
    std::vector<std::byte> out(6);
    std::uint64_t overflows = 0;
    apply_decode(form, {factor, std::nullopt}, DType::bf16, 0, 3, codes, floats({scale}), out,
                 overflows);
    for (std::size_t i = 0; i < 3; ++i) {
      const float value = std::vector<float>{1, 3, 127}[i] * scale;
      const auto bits = load_le<std::uint16_t>(&out[2 * i]);
      EXPECT_EQ(bits, f32_to_bf16(f16_to_f32(f32_to_f16(value)) * factor));
      unlike += bits != f32_to_bf16(value * factor) ? 1U : 0U;
    }
  }
  EXPECT_GT(unlike, 0U);
  EXPECT_EQ(decoded(form, 3, codes, floats({scale})),
            (std::vector<float>{scale, 3 * scale, 127 * scale}))
      << "in f32 nothing is rounded";
}

struct ZeroCase {
  Code code;
  ZeroPoints zeros;
  std::uint64_t stack, rows, cols, row_block, col_block;
};

// One zero point for each scale. Packed ones share words along the rows: row r of eight (or four)
// is in word row r / 8 of its matrix.
TEST(Decode, ZeroPointsAreThoseOfTheirScales) {
  std::mt19937 random(3);
  for (const ZeroCase& item : {ZeroCase{Code::int8, ZeroPoints::int8, 2, 6, 9, 2, 4},
                               ZeroCase{Code::int4, ZeroPoints::packed4, 1, 19, 24, 1, 8},
                               ZeroCase{Code::int4, ZeroPoints::packed4, 3, 10, 16, 1, 16},
                               ZeroCase{Code::uint8, ZeroPoints::packed8, 2, 7, 12, 1, 3}}) {
    BlockScale form{item.code, DType::f32, item.rows, item.cols, item.row_block, item.col_block};
    form.zeros = item.zeros;
    const std::uint64_t numel = item.stack * item.rows * item.cols;
    const std::uint64_t bits = code_bits(item.code);
    std::vector<std::byte> codes(numel * bits / 8);
    for (std::byte& code : codes) code = static_cast<std::byte>(random());
    std::vector<std::byte> zeros(item.stack * zero_bytes_per_matrix(form));
    for (std::byte& zero : zeros) zero = static_cast<std::byte>(random());
    std::vector<float> factors(item.stack * form.scales_per_matrix());
    for (std::size_t i = 0; i < factors.size(); ++i) factors[i] = static_cast<float>(i + 1);
    const std::vector<std::byte> scales = floats(factors);
    const std::vector<float> plain = decoded(row_form(item.code, numel), numel, codes, floats({1}));
    const auto zero_at = [&](std::uint64_t row, std::uint64_t scale, std::uint64_t block) -> float {
      if (item.zeros == ZeroPoints::int8)
        return static_cast<float>(static_cast<signed char>(zeros[scale]));
      const std::uint64_t per_word = item.zeros == ZeroPoints::packed4 ? 8 : 4;
      const std::uint64_t words = (item.rows + per_word - 1) / per_word;
      const std::uint64_t word_row = row / item.rows * words + row % item.rows / per_word;
      const auto word =
          load_le<std::uint32_t>(&zeros[(word_row * form.scales_per_row() + block) * 4]);
      const std::uint64_t place = row % item.rows % per_word;
      return per_word == 8 ? static_cast<float>(word >> (4 * place) & 15U) - 8
                           : static_cast<float>(word >> (8 * place) & 255U) - 128;
    };
    for (int trial = 0; trial < 40; ++trial) {
      std::uint64_t begin = random() % numel;
      if (bits == 4) begin -= begin % 2;
      const std::uint64_t count = 1 + random() % (numel - begin);
      const ScaleRange range = scale_range(form, begin, count);
      const ByteRange zero = zero_range(form, begin, count);
      ASSERT_LE(zero.end, zeros.size());
      ASSERT_LE(zero.end - zero.begin, most_zero_bytes(form, count));
      std::vector<std::byte> out(count * 4);
      std::uint64_t overflows = 0;
      apply_decode(form, {}, DType::f32, begin, count,
                   std::span(codes).subspan(begin * bits / 8, ceil_div(count * bits, 8)),
                   Scales{std::span(scales).subspan(range.first * 4, range.count * 4),
                          std::span(zeros).subspan(zero.begin, zero.end - zero.begin)},
                   out, overflows);
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t row = (begin + i) / item.cols;
        const std::uint64_t block = (begin + i) % item.cols / item.col_block;
        const std::uint64_t scale = row / item.rows * form.scales_per_matrix() +
                                    row % item.rows / item.row_block * form.scales_per_row() +
                                    block;
        ASSERT_EQ(load_le<float>(&out[4 * i]),
                  (plain[begin + i] - zero_at(row, scale, block)) * factors[scale])
            << to_string(item.code) << " element " << begin + i;
      }
    }
  }
}

TEST(Decode, RefusesWhatCannotBeAScale) {
  EXPECT_TRUE(is_scale_dtype(DType::f8_e8m0));
  EXPECT_FALSE(is_scale_dtype(DType::i32));
  EXPECT_FALSE(is_scale_dtype(DType::f64));
}

TEST(ScaleRange, NoElementsNeedNoScalesOrZeroPoints) {
  const BlockScale form{.rows = 4, .cols = 3, .zeros = ZeroPoints::packed4};
  for (const std::uint64_t begin : {0U, 4U}) {
    EXPECT_EQ(scale_range(form, begin, 0).count, 0U);
    EXPECT_EQ(zero_range(form, begin, 0), ByteRange());
  }
}

}  // namespace
}  // namespace hfshard
