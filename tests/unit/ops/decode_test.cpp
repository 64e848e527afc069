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

// All values of one call, as f32.
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
// one, table 5.
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

// One multiplication in f32, one rounding to the target.
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

// Blocks that divide and that do not, several matrices, runs that begin and end anywhere.
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

// Finite values of a call that its target cannot hold, by the definition: a code times its scale
// times the factor, each rounded to f32.
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

// A count that is off misleads whoever decides whether f16 will do. Bytes and nibbles, short and
// long runs of one scale, runs that begin at either nibble of a byte.
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

TEST(Decode, RefusesWhatCannotBeAScale) {
  EXPECT_TRUE(is_scale_dtype(DType::f8_e8m0));
  EXPECT_FALSE(is_scale_dtype(DType::i32));
  EXPECT_FALSE(is_scale_dtype(DType::f64));
}

}  // namespace
}  // namespace hfshard
