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
inline constexpr std::size_t kFloatBlock = 512;
using FloatBlock = std::array<float, kFloatBlock>;

// f16 below: the functions of base/floats without branches, so that loops over them are vectorised;
// same bits.

/// A half as a float, but for infinities and NaNs.
inline float widen_finite(std::uint16_t half) noexcept {
  // The exponent is 112 too small; a multiplication by 2^112 corrects subnormals too.
  return std::bit_cast<float>((half & 0x7fffU) << 13) * 0x1p112F;
}

inline float widen_f16(std::uint16_t half, float finite) noexcept {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const std::uint32_t bits =
      magnitude >= 0x0f800000U ? magnitude | 0x7f800000U : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

/// The bits of a float that is too small for a normal half. One unit in the last place of 0.5 is
/// the smallest half, so the addition rounds to nearest even.
inline std::uint32_t narrow_small(float value) noexcept {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
  return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
}

inline std::uint16_t narrow_f16(float value, std::uint32_t small) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  std::uint32_t out = magnitude < 0x38800000U ? small : normal;
  out = magnitude >= 0x47800000U ? 0x7c00U : out;
  out = magnitude > 0x7f800000U ? nan : out;
  return static_cast<std::uint16_t>(out | (bits >> 31 << 15));
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
};

struct F32 {
  using Bits = std::uint32_t;
  static constexpr std::uint32_t kInfinity = 0x7f800000U;
  static constexpr std::uint32_t kMagnitude = 0x7fffffffU;
  static float widen(Bits bits) noexcept { return std::bit_cast<float>(bits); }
  static Bits narrow(float value) noexcept { return std::bit_cast<Bits>(value); }
};

/// Reads a block of elements.
template <typename Float>
void widen_block(const std::byte* src, FloatBlock& out) noexcept {
  std::array<typename Float::Bits, kFloatBlock> bits;
  std::memcpy(bits.data(), src, sizeof bits);
  for (std::size_t i = 0; i < kFloatBlock; ++i) out[i] = Float::widen(bits[i]);
}

/// Rounds a block of elements; their bits.
template <typename Float>
void narrow_block(const FloatBlock& in,
                  std::array<typename Float::Bits, kFloatBlock>& bits) noexcept {
  for (std::size_t i = 0; i < kFloatBlock; ++i) bits[i] = Float::narrow(in[i]);
}

// In two loops: floating-point work under a condition is not vectorised.
template <>
inline void widen_block<F16>(const std::byte* src, FloatBlock& out) noexcept {
  std::array<F16::Bits, kFloatBlock> bits;
  std::memcpy(bits.data(), src, sizeof bits);
  for (std::size_t i = 0; i < kFloatBlock; ++i) out[i] = widen_finite(bits[i]);
  for (std::size_t i = 0; i < kFloatBlock; ++i) out[i] = widen_f16(bits[i], out[i]);
}

template <>
inline void narrow_block<F16>(const FloatBlock& in,
                              std::array<F16::Bits, kFloatBlock>& bits) noexcept {
  std::array<std::uint32_t, kFloatBlock> small;
  for (std::size_t i = 0; i < kFloatBlock; ++i) small[i] = narrow_small(in[i]);
  for (std::size_t i = 0; i < kFloatBlock; ++i) bits[i] = narrow_f16(in[i], small[i]);
}

/// x * mul, then + add: two roundings to f32.
inline void compute_block(const Value& value, FloatBlock& block) noexcept {
  if (value.mul) {
    const float mul = *value.mul;
    for (float& x : block) x = x * mul;
  }
  if (value.add) {
    const float add = *value.add;
    for (float& x : block) x = x + add;
  }
}

/// How many finite floats of a block became infinite. What follows the data in the last block of a
/// run is zero and counts nothing.
template <typename Float>
std::uint64_t count_overflows(const FloatBlock& in,
                              const std::array<typename Float::Bits, kFloatBlock>& bits) noexcept {
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < kFloatBlock; ++i) {
    const std::uint32_t finite =
        (std::bit_cast<std::uint32_t>(in[i]) & 0x7fffffffU) < 0x7f800000U ? 1U : 0U;
    const std::uint32_t infinite = (bits[i] & Float::kMagnitude) == Float::kInfinity ? 1U : 0U;
    count += finite & infinite;
  }
  return count;
}

}  // namespace hfshard
