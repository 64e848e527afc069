// Every instruction set of this processor gives the same bytes as the plainest loop.

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/floats.h"
#include "ops/decode.h"
#include "ops/kernels.h"
#include "ops/move.h"
#include "ops/value.h"
#include "support/sizes.h"
#include "unit/ops/reference.h"

namespace hfshard {
namespace {

using reference::kFloats;
using reference::pick;
using reference::Random;
using reference::random_bytes;

constexpr std::uint64_t kSimdSeed = 2718;

std::vector<Simd> levels() {
  std::vector<Simd> out;
  for (const Simd simd : kSimdLevels) {
    if (simd <= best_simd()) out.push_back(simd);
  }
  return out;
}

/// `rows` x `columns` of the source, every `stride`-th column, transposed, `outer` times.
struct Plane {
  std::size_t columns, rows, outer, stride, src_pitch, dst_pitch;
};

ByteDigits digits_of(const Plane& plane, std::size_t width) {
  const auto bytes = [&](std::size_t elements) {
    return static_cast<std::ptrdiff_t>(elements * width);
  };
  ByteDigits out;
  out.push_back(
      {plane.outer, bytes(plane.rows * plane.src_pitch), bytes(plane.columns * plane.dst_pitch)});
  out.push_back({plane.columns, bytes(plane.stride), bytes(plane.dst_pitch)});
  out.push_back({plane.rows, bytes(plane.src_pitch), bytes(1)});
  return out;
}

/// Compares the whole target, including bytes between and around the rows.
void expect_as_gathered(const Plane& plane, std::size_t width, Random& random) {
  const ByteDigits digits = digits_of(plane, width);
  const std::size_t src_skew = pick(random, 0, 70);
  const std::size_t dst_skew = pick(random, 0, 70);
  const auto src =
      random_bytes(random, src_skew + plane.outer * plane.rows * plane.src_pitch * width);
  const auto before =
      random_bytes(random, dst_skew + plane.outer * plane.columns * plane.dst_pitch * width + 64);
  std::vector<std::byte> expected = before;
  copy_gathered(digits, width, src.data() + src_skew, expected.data() + dst_skew);
  for (const Simd simd : levels()) {
    std::vector<std::byte> dst = before;
    ASSERT_TRUE(copy_transposed(digits, width, src.data() + src_skew, dst.data() + dst_skew, simd));
    ASSERT_TRUE(dst == expected) << "level " << static_cast<int>(simd) << ", width " << width
                                 << ", " << plane.columns << " x " << plane.rows << ", stride "
                                 << plane.stride;
  }
}

TEST(SimdLevels, TransposesAgreeWithTheGatherKernel) {
  Random random(kSimdSeed);
  for (int trial = 0; trial < cases(400); ++trial) {
    Plane plane{};
    plane.columns = pick(random, 2, trial % 4 == 0 ? 300 : 70);
    plane.rows = pick(random, 2, trial % 4 == 1 ? 700 : 70);
    plane.outer = pick(random, 1, 3);
    plane.stride = trial % 3 == 0 ? pick(random, 2, 4) : 1;
    plane.src_pitch = (plane.columns - 1) * plane.stride + 1 + pick(random, 0, 9);
    // Some target rows have equal alignment, and some targets are large enough for streaming.
    plane.dst_pitch = plane.rows + pick(random, 0, 9);
    if (trial % 5 == 0) plane.dst_pitch = (plane.rows + 64) / 64 * 64;
    for (const std::size_t width : {1U, 2U, 4U, 8U}) expect_as_gathered(plane, width, random);
  }
}

TEST(SimdLevels, LongRowsKeepWhatTheyHaveOfALineFromTileToTile) {
  Random random(kSimdSeed + 1);
  for (const std::size_t pitch : {2003U, 2048U}) {
    for (const std::size_t width : {1U, 2U, 4U, 8U}) {
      expect_as_gathered({67, 2003, 1, 1, 71, pitch}, width, random);
      expect_as_gathered({1100, 129, 1, 1, 1100, pitch}, width, random);
    }
  }
}

TEST(SimdLevels, PicksAgreeWithTheGatherKernel) {
  Random random(kSimdSeed + 2);
  for (int trial = 0; trial < cases(200); ++trial) {
    const std::size_t count = pick(random, 2, 300);
    const std::size_t stride = pick(random, 2, 4);
    const std::size_t pitch = (count - 1) * stride + 1 + pick(random, 0, 3);
    for (const std::size_t width : {1U, 2U, 4U, 8U}) {
      const auto step = [&](std::size_t elements) {
        return static_cast<std::ptrdiff_t>(elements * width);
      };
      ByteDigits digits;
      digits.push_back({3, step(pitch), step(count + 1)});
      digits.push_back({count, step(stride), step(1)});
      const auto src = random_bytes(random, 3 * pitch * width + 1);
      const auto before = random_bytes(random, 3 * (count + 1) * width + 1);
      std::vector<std::byte> expected = before;
      copy_gathered(digits, width, &src[1], &expected[1]);
      for (const Simd simd : levels()) {
        std::vector<std::byte> dst = before;
        ASSERT_TRUE(copy_picked(digits, width, &src[1], &dst[1], simd));
        ASSERT_TRUE(dst == expected) << count << " of every " << stride;
      }
    }
  }
}

TEST(SimdLevels, MovesOfRandomRulesAgreeWithTheReference) {
  Random random(kSimdSeed + 3);
  for (int trial = 0; trial < cases(300); ++trial) {
    const reference::Rule rule = reference::random_rule(random, 5, 9);
    for (const std::size_t width : {1U, 2U, 4U, 8U}) {
      const auto src = random_bytes(random, rule.src_shape.numel() * width);
      const auto before = random_bytes(random, rule.dst_shape.numel() * width);
      std::vector<std::byte> expected = before;
      reference::move_elements(rule.map, width, src.data(), expected.data());
      for (const Simd simd : levels()) {
        std::vector<std::byte> dst = before;
        move_elements(rule.map, width, src, dst, simd);
        ASSERT_TRUE(dst == expected);
      }
    }
  }
}

constexpr DType kSources[] = {DType::f16, DType::bf16, DType::f32, DType::i32, DType::i64};

TEST(SimdLevels, ValuesHaveTheSameBits) {
  Random random(kSimdSeed + 4);
  const Value values[] = {{}, {0.0883883461F, {}}, {{}, 1.0F}, {-3.25F, 1.0F}, {3e38F, {}}};
  for (int trial = 0; trial < 40; ++trial) {
    const std::uint64_t count = pick(random, 1, trial == 0 ? 70000 : 700);
    for (const DType from : kSources) {
      const auto src = random_bytes(random, packed_bytes(from, count) + 1);
      for (const DType to : kFloats) {
        for (const Value& value : values) {
          if (!can_apply_value(value, from, to)) continue;
          std::vector<std::byte> expected(packed_bytes(to, count));
          const auto bytes = std::span(src).subspan(1);
          const std::uint64_t overflows =
              apply_value(value, from, to, count, bytes, expected, Simd::portable);
          for (const Simd simd : levels()) {
            std::vector<std::byte> dst(expected.size());
            ASSERT_EQ(apply_value(value, from, to, count, bytes, dst, simd), overflows);
            ASSERT_TRUE(dst == expected) << to_string(from) << " to " << to_string(to);
          }
        }
      }
    }
  }
}

/// Returns scales without NaN, since processors propagate NaNs differently.
std::vector<std::byte> random_scales(const BlockScale& form, std::uint64_t count, Random& random) {
  std::vector<std::byte> out = random_bytes(random, packed_bytes(form.scale_dtype, count));
  for (std::uint64_t i = 0; i < count && form.scale_dtype == DType::f32; ++i) {
    store_le(&out[4 * i], static_cast<float>(random() % 4096) * 0x1p-9F);
  }
  return out;
}

TEST(SimdLevels, DecodedValuesHaveTheSameBits) {
  Random random(kSimdSeed + 5);
  const BlockScale forms[] = {
      {Code::f8_e4m3, DType::f32, 20, 300, 8, 128}, {Code::f8_e5m2, DType::f32, 20, 300, 8, 128},
      {Code::f8_e4m3, DType::u8, 9, 96, 1, 32},     {Code::f8_e4m3, DType::f32, 7, 11, 3, 3},
      {Code::f4_e2m1, DType::u8, 30, 96, 1, 32},    {Code::int4, DType::f32, 30, 70, 2, 35},
      {Code::f4_e2m1, DType::u8, 9, 1000, 1, 500},  {Code::int4, DType::f32, 11, 77, 1, 13},
  };
  for (const BlockScale& form : forms) {
    const std::uint64_t bits = code_bits(form.code);
    const std::uint64_t numel = 3 * form.rows * form.cols;
    const auto codes = random_bytes(random, ceil_div(numel * bits, 8));
    const auto scales = random_scales(form, 3 * form.scales_per_matrix(), random);
    for (int trial = 0; trial < 60; ++trial) {
      std::uint64_t begin = pick(random, 0, numel - 1);
      if (bits == 4) begin -= begin % 2;
      const std::uint64_t count = pick(random, 1, numel - begin);
      const ScaleRange range = scale_range(form, begin, count);
      const std::size_t size = size_bits(form.scale_dtype) / 8;
      const Value value = trial % 2 == 0 ? Value{} : Value{-1.75F, 0.5F};
      const DType to = kFloats[trial % 3];
      const auto decode = [&](Simd simd, std::uint64_t& overflows) {
        std::vector<std::byte> out(packed_bytes(to, count));
        apply_decode(form, value, to, begin, count,
                     std::span(codes).subspan(begin * bits / 8, ceil_div(count * bits, 8)),
                     std::span(scales).subspan(range.first * size, range.count * size), out,
                     overflows, simd);
        return out;
      };
      std::uint64_t expected_overflows = 0;
      const std::vector<std::byte> expected = decode(Simd::portable, expected_overflows);
      for (const Simd simd : levels()) {
        std::uint64_t overflows = 0;
        ASSERT_TRUE(decode(simd, overflows) == expected);
        ASSERT_EQ(overflows, expected_overflows);
      }
    }
  }
}

// -- Whole blocks, which AVX2 and AVX-512 decode many at a time while all numbers are finite

/// Replaces codes that aren't finite numbers.
void make_finite(Code code, std::vector<std::byte>& codes) {
  const unsigned first_special = code == Code::f8_e4m3 ? 0x7fU : code == Code::f8_e5m2 ? 0x7cU : 0;
  for (std::byte& byte : codes) {
    const auto magnitude = std::to_integer<unsigned>(byte) & 0x7fU;
    if (first_special != 0 && magnitude >= first_special) byte = std::byte{0x85};
  }
}

struct BlockCase {
  BlockScale form;
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> zeros;
};

BlockCase block_case(const BlockScale& form, float scale, Random& random) {
  const std::uint64_t numel = form.rows * form.cols;
  BlockCase out{form, random_bytes(random, numel * code_bits(form.code) / 8), {}, {}};
  make_finite(form.code, out.codes);
  const std::uint64_t count = form.scales_per_matrix();
  out.scales = random_bytes(random, packed_bytes(form.scale_dtype, count));
  for (std::uint64_t i = 0; i < count; ++i) {
    const float each = scale * (1.0F + static_cast<float>(random() % 4096) / 4096);
    if (form.scale_dtype == DType::f32) store_le(&out.scales[4 * i], each);
    if (form.scale_dtype == DType::bf16) store_le(&out.scales[2 * i], f32_to_bf16(each));
    if (form.scale_dtype == DType::f16) store_le(&out.scales[2 * i], f32_to_f16(each));
    if (form.scale_dtype == DType::u8) out.scales[i] = static_cast<std::byte>(100 + random() % 40);
    if (form.scale_dtype == DType::f8_e4m3) out.scales[i] &= std::byte{0x77};
  }
  out.zeros = random_bytes(random, zero_bytes_per_matrix(form));
  return out;
}

/// Decodes from one element on. A band can begin in the middle of a block.
std::vector<std::byte> decode_from(const BlockCase& at, const Value& value, DType to,
                                   std::uint64_t begin, Simd simd, std::uint64_t& overflows) {
  const std::uint64_t bits = code_bits(at.form.code);
  const std::uint64_t count = at.form.rows * at.form.cols - begin;
  const ScaleRange range = scale_range(at.form, begin, count);
  const ByteRange zeros = zero_range(at.form, begin, count);
  const std::size_t size = size_bits(at.form.scale_dtype) / 8;
  std::vector<std::byte> out(packed_bytes(to, count));
  apply_decode(at.form, value, to, begin, count, std::span(at.codes).subspan(begin * bits / 8),
               Scales{std::span(at.scales).subspan(range.first * size, range.count * size),
                      std::span(at.zeros).subspan(zeros.begin, zeros.end - zeros.begin), 0.75F},
               out, overflows, simd);
  return out;
}

void expect_same_blocks(const BlockCase& at, const std::string& what,
                        const std::vector<Value>& values = {
                            {}, {-1.75F, 0.5F}, {3e38F, {}}, {{}, -2.0F}}) {
  for (const std::uint64_t begin :
       {std::uint64_t{0}, std::uint64_t{6}, (at.form.cols + 48) / 2 * 2}) {
    for (const DType to : kFloats) {
      for (const Value& value : values) {
        std::uint64_t expected_overflows = 0;
        const auto expected = decode_from(at, value, to, begin, Simd::portable, expected_overflows);
        for (const Simd simd : levels()) {
          std::uint64_t overflows = 0;
          ASSERT_TRUE(decode_from(at, value, to, begin, simd, overflows) == expected)
              << what << ", to " << to_string(to) << " from " << begin << ", level "
              << static_cast<int>(simd);
          ASSERT_EQ(overflows, expected_overflows) << what << ", to " << to_string(to);
        }
      }
    }
  }
}

std::vector<BlockScale> block_forms() {
  std::vector<BlockScale> out;
  for (const Code code :
       {Code::f8_e4m3, Code::f8_e5m2, Code::f4_e2m1, Code::int4, Code::int8, Code::uint8}) {
    out.push_back({code, DType::f32, 8, 2400, 4, 32});  // 75 blocks a row: more than one batch
    out.push_back({code, DType::bf16, 5, 300, 2, 128});
    out.push_back({code, DType::u8, 6, 96, 1, 16});
    out.push_back({code, DType::u8, 6, 96, 1, 8});
    out.push_back({code, DType::f8_e4m3, 6, 96, 1, 16, ZeroPoints::none, Factor::multiplies});
    out.push_back({code, DType::f8_e4m3, 5, 112, 1, 16});  // an odd number of blocks a row
    out.push_back({code, DType::f16, 5, 144, 1, 48, ZeroPoints::none, Factor::divides});
    out.push_back({code, DType::bf16, 9, 96, 1, 32, ZeroPoints::none, Factor::none, /*half=*/true});
  }
  out.push_back({Code::int8, DType::f32, 6, 96, 1, 32, ZeroPoints::int8});
  out.push_back({Code::int8, DType::f32, 6, 112, 1, 16, ZeroPoints::int8});
  out.push_back({Code::int4, DType::f32, 8, 77, 1, 32});  // rows that begin inside of a byte
  out.push_back({Code::int4, DType::bf16, 16, 96, 1, 32, ZeroPoints::packed4});
  out.push_back({Code::uint8, DType::f32, 8, 96, 1, 32, ZeroPoints::packed8});
  out.push_back({Code::f8_e4m3, DType::f32, 6, 96, 1, 32, ZeroPoints::int8});
  return out;
}

TEST(SimdLevels, WholeBlocksHaveTheSameBits) {
  Random random(kSimdSeed + 6);
  for (const BlockScale& form : block_forms()) {
    // Products that are subnormal, usual, and infinite in f16, and in bf16 and f32.
    const float scales[] = {600.0F, 0x1p-147F, 0x1p126F, 0x1p-20F, 1.0F};
    for (const float scale : std::span(scales).first(static_cast<std::size_t>(cases(5)))) {
      const std::string what = fmt::format("{} of {}, scale {}", to_string(form.code),
                                           to_string(form.scale_dtype), scale);
      expect_same_blocks(block_case(form, scale, random), what);
    }
  }
}

TEST(SimdLevels, OneNumberThatIsNotFiniteIsFoundInABatchOfBlocks) {
  Random random(kSimdSeed + 7);
  for (const Code code : {Code::f8_e4m3, Code::f8_e5m2}) {
    for (const unsigned special : {0x7cU, 0x7dU, 0x7eU, 0x7fU, 0xfcU, 0xfeU, 0xffU}) {
      BlockCase at = block_case({code, DType::f32, 2, 1024, 1, 128}, 0.5F, random);
      at.codes[pick(random, 0, at.codes.size() - 1)] = static_cast<std::byte>(special);
      expect_same_blocks(at, fmt::format("{} with {:#x}", to_string(code), special));
    }
  }
  for (const float special : {std::numeric_limits<float>::infinity(), 3e38F}) {
    BlockCase at = block_case({Code::int8, DType::f32, 2, 1024, 1, 128}, 0.5F, random);
    store_le(&at.scales[4 * pick(random, 0, 15)], special);
    expect_same_blocks(at, fmt::format("a scale of {}", special));
  }
}

// Above the largest bf16 are values that are finite in f32, and become infinite when rounded.
TEST(SimdLevels, WholeBlocksCountWhatOnlyRoundingMakesInfinite) {
  Random random(kSimdSeed + 8);
  for (const float special : {3.4e38F, 65520.0F}) {
    BlockCase at = block_case({Code::int8, DType::f32, 2, 1024, 1, 128}, 0.5F, random);
    std::ranges::fill(at.codes, std::byte{1});
    for (std::size_t i = 0; i < 16; ++i) store_le(&at.scales[4 * i], special);
    std::uint64_t overflows = 0;
    decode_from(at, {}, special > 1e30F ? DType::bf16 : DType::f16, 0, Simd::portable, overflows);
    ASSERT_EQ(overflows, 2048U);
    expect_same_blocks(at, fmt::format("a scale of {}", special));
  }
}

TEST(SimdLevels, EachCodeAndScaleHasTheSameBits) {
  for (const Code code :
       {Code::f8_e4m3, Code::f8_e5m2, Code::int8, Code::uint8, Code::f4_e2m1, Code::int4}) {
    for (const DType scale : {DType::u8, DType::f8_e8m0, DType::f8_e4m3}) {
      // A row has each finite code, all with one scale.
      BlockCase at{{code, scale, 256, 256, 1, 256}, {}, {}, {}};
      const std::uint64_t bytes = 256 * 256 * code_bits(code) / 8;
      for (std::uint64_t i = 0; i < bytes; ++i)
        at.codes.push_back(static_cast<std::byte>((i + i / 256) % 256));
      make_finite(code, at.codes);
      for (std::uint64_t i = 0; i < at.form.scales_per_matrix(); ++i)
        at.scales.push_back(static_cast<std::byte>(i));
      expect_same_blocks(at, fmt::format("{} by {}", to_string(code), to_string(scale)), {Value{}});
    }
  }
}

}  // namespace
}  // namespace hfshard
