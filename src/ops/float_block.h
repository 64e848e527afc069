#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/floats.h"
#include "ops/value.h"

namespace hfshard {

/// Elements worked on at a time: constant, so that the loops are vectorised at every optimisation
/// level.
inline constexpr std::size_t kFloatBlock = 64;

// The functions of base/floats without branches, so that loops over them are vectorised; same bits.

/// `a` where `condition` holds, else `b`. A conditional expression would let the compiler move
/// floating-point work under the condition, and such loops are not vectorised.
inline std::uint32_t select(bool condition, std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t mask = std::uint32_t{0} - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// The bits of a magnitude whose fraction stands where f32 has it, and whose exponent is `bias` too
/// small. A subnormal m * 2^k is (1 + m) * 2^k - 2^k: nothing here is a subnormal f32, with which
/// processors take their time.
inline std::uint32_t widen_exponent(std::uint32_t magnitude, std::uint32_t bias) noexcept {
  const std::uint32_t smallest = (bias + 1) << 23;
  const float subnormal =
      std::bit_cast<float>(magnitude | smallest) - std::bit_cast<float>(smallest);
  return select(magnitude < 0x00800000U, std::bit_cast<std::uint32_t>(subnormal),
                magnitude + (bias << 23));
}

struct Bf16 {
  using Bits = std::uint16_t;
  static constexpr std::uint32_t kInfinity = 0x7f80U;
  static constexpr std::uint32_t kMagnitude = 0x7fffU;
  static float widen(Bits bits) noexcept { return bf16_to_f32(bits); }
  static Bits narrow(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nan = (bits >> 16) | 0x40U;
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<Bits>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  }
};

struct F16 {
  using Bits = std::uint16_t;
  static constexpr std::uint32_t kInfinity = 0x7c00U;
  static constexpr std::uint32_t kMagnitude = 0x7fffU;
  static float widen(Bits half) noexcept {
    const std::uint32_t magnitude = (half & 0x7fffU) << 13;
    const std::uint32_t bits =
        select(magnitude >= 0x0f800000U, magnitude | 0x7f800000U, widen_exponent(magnitude, 112));
    return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
  }
  static Bits narrow(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7fffffffU;
    // Too small for a normal half: one unit in the last place of 0.5 is the smallest half, so the
    // addition rounds to nearest even.
    const std::uint32_t small =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const std::uint32_t normal =
        (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
    std::uint32_t out = select(magnitude < 0x38800000U, small, normal);
    out = select(magnitude >= 0x47800000U, 0x7c00U, out);
    out = select(magnitude > 0x7f800000U, nan, out);
    return static_cast<Bits>(out | (bits >> 31 << 15));
  }
};

struct F32 {
  using Bits = std::uint32_t;
  static constexpr std::uint32_t kInfinity = 0x7f800000U;
  static constexpr std::uint32_t kMagnitude = 0x7fffffffU;
  static float widen(Bits bits) noexcept { return std::bit_cast<float>(bits); }
  static Bits narrow(float value) noexcept { return std::bit_cast<Bits>(value); }
};

template <typename Float>
using BitsBlock = std::array<typename Float::Bits, kFloatBlock>;

/// A Value that always computes. An absent factor is 1 and an absent summand -0, which change no
/// bits but those that make a NaN quiet.
struct FullValue {
  float mul;
  float add;
  explicit FullValue(const Value& value) noexcept
      : mul(value.mul.value_or(1.0F)), add(value.add.value_or(-0.0F)) {}
  /// Two roundings to f32.
  float operator()(float x) const noexcept {
    const float product = x * mul;
    return product + add;
  }
};

/// Whether a block has an infinity.
template <typename Float>
bool has_infinity(const BitsBlock<Float>& bits) noexcept {
  typename Float::Bits count = 0;
  for (std::size_t i = 0; i < kFloatBlock; ++i) {
    count = static_cast<typename Float::Bits>(
        count | ((bits[i] & Float::kMagnitude) == Float::kInfinity ? 1U : 0U));
  }
  return count != 0;
}

inline bool is_finite_bits(float value) noexcept {
  return (std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) < 0x7f800000U;
}

/// How many of the first `count` elements are infinite, but have a finite `source(i)`.
template <typename Float, typename Source>
std::uint64_t count_overflows(const BitsBlock<Float>& bits, std::size_t count, Source source) {
  std::uint64_t overflows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if ((bits[i] & Float::kMagnitude) == Float::kInfinity && is_finite_bits(source(i))) ++overflows;
  }
  return overflows;
}

}  // namespace hfshard
