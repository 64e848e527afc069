#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/floats.h"
#include "ops/value.h"

namespace hfshard {

/// Elements per block. A constant, so the compiler vectorizes loops at every optimization level.
inline constexpr std::size_t kFloatBlock = 64;

// Versions of base/floats without branches, for vectorized loops. The bits are the same.

/// Returns `a` if `condition` is true, else `b`. With a conditional expression, the compiler could
/// move floating-point work under the condition. Such loops aren't vectorized.
inline std::uint32_t select(bool condition, std::uint32_t a, std::uint32_t b) noexcept {
  const std::uint32_t mask = std::uint32_t{0} - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// Returns the bits of a magnitude whose fraction is at f32's place and whose exponent is `bias`
/// too small. A subnormal m * 2^k is (1 + m) * 2^k - 2^k. So no value here is a subnormal f32,
/// which processors handle slowly.
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
    // Too small for a normal half. One unit in the last place of 0.5 is the smallest half, so the
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

struct F64 {
  using Bits = std::uint64_t;
  static double widen(Bits bits) noexcept { return std::bit_cast<double>(bits); }
};

/// Returns the f32 towards zero, with its last bit set unless it is exact. Rounding it to bf16 or
/// f16 gives the same as rounding the f64, because f32 has more than two additional bits. Source:
/// Sylvie Boldo, Guillaume Melquiond, "Emulation of FMA and correctly rounded sums: proved
/// algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008.
inline float round_to_odd(double value) noexcept {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  const auto bits = std::bit_cast<std::uint32_t>(nearest);
  const double size = value < 0 ? -value : value;
  const std::uint32_t away = (back < 0 ? -back : back) > size ? 1U : 0U;
  return std::bit_cast<float>((bits - away) | 1U);
}

/// Returns the bits of a number of any width, rounded once to nearest even.
template <typename To>
typename To::Bits narrowed(float value) noexcept {
  return To::narrow(value);
}
template <typename To>
typename To::Bits narrowed(double value) noexcept {
  if constexpr (std::is_same_v<To, F32>) return To::narrow(static_cast<float>(value));
  return To::narrow(round_to_odd(value));
}

/// A Value that always computes. An absent factor is 1 and an absent summand -0. They don't change
/// bits, except that NaNs become quiet.
struct FullValue {
  float mul;
  float add;
  explicit FullValue(const Value& value) noexcept
      : mul(value.mul.value_or(1.0F)), add(value.add.value_or(-0.0F)) {}
  /// Rounds twice to f32.
  float operator()(float x) const noexcept {
    const float product = x * mul;
    return product + add;
  }
  /// Rounds twice to f64.
  double operator()(double x) const noexcept {
    const double product = x * static_cast<double>(mul);
    return product + static_cast<double>(add);
  }
};

/// Returns whether a block has an infinity.
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

inline bool is_finite_bits(double value) noexcept {
  constexpr std::uint64_t kInfinity = 0x7ff0000000000000U;
  return (std::bit_cast<std::uint64_t>(value) & ~(std::uint64_t{1} << 63)) < kInfinity;
}

/// Counts those of the first `count` elements that are infinite but have a finite `source(i)`.
template <typename Float, typename Source>
std::uint64_t count_overflows(const BitsBlock<Float>& bits, std::size_t count, Source source) {
  std::uint64_t overflows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if ((bits[i] & Float::kMagnitude) == Float::kInfinity && is_finite_bits(source(i))) ++overflows;
  }
  return overflows;
}

}  // namespace hfshard
