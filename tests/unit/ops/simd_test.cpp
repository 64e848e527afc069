// Every instruction set of this processor gives the same bytes as the plainest loop.

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/checked.h"
#include "base/coding.h"
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

}  // namespace
}  // namespace hfshard
