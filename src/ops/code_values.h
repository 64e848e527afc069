#pragma once

#include <bit>
#include <cstdint>

#include "ops/float_block.h"

namespace hfshard {

inline constexpr std::uint32_t kFloatNan = 0x7fc00000U;

/// Returns the f32 bits of a magnitude with `kMantissaBits` and an exponent of bias `kBias`.
template <std::uint32_t kMantissaBits, std::uint32_t kBias>
std::uint32_t widen_magnitude(std::uint32_t magnitude) noexcept {
  return widen_exponent(magnitude << (23 - kMantissaBits), 127 - kBias);
}

// One struct per Code: the value of a code, without branches, and the largest finite magnitude.
// NaNs have no sign.
// Source of the first two: OCP 8-bit Floating Point Specification 1.0, section 5; of the third: OCP
// Microscaling Formats (MX) Specification 1.0, section 5.3.3.

struct F8E4M3 {
  static constexpr float kLargest = 448;
  static float value(std::uint32_t code) noexcept {
    const std::uint32_t magnitude = code & 0x7fU;
    const std::uint32_t finite = widen_magnitude<3, 7>(magnitude) | (code & 0x80U) << 24;
    return std::bit_cast<float>(select(magnitude == 0x7fU, kFloatNan, finite));
  }
};

struct F8E5M2 {
  static constexpr float kLargest = 57344;
  static float value(std::uint32_t code) noexcept {
    const std::uint32_t magnitude = code & 0x7fU;
    const std::uint32_t finite = widen_magnitude<2, 15>(magnitude);
    const std::uint32_t number = select(magnitude == 0x7cU, F32::kInfinity, finite) | (code & 0x80U)
                                                                                          << 24;
    return std::bit_cast<float>(select(magnitude > 0x7cU, kFloatNan, number));
  }
};

struct F4E2M1 {
  static constexpr float kLargest = 6;
  static float value(std::uint32_t code) noexcept {
    return std::bit_cast<float>(widen_magnitude<1, 1>(code & 7U) | (code & 8U) << 28);
  }
};

struct Int4 {
  static constexpr float kLargest = 8;
  static float value(std::uint32_t code) noexcept {
    return static_cast<float>(static_cast<std::int32_t>(code) - 8);
  }
};

struct Int8 {
  static constexpr float kLargest = 128;
  static float value(std::uint32_t code) noexcept {
    return static_cast<float>(static_cast<std::int32_t>(code ^ 0x80U) - 128);
  }
};

struct Uint8 {
  static constexpr float kLargest = 128;
  static float value(std::uint32_t code) noexcept {
    return static_cast<float>(static_cast<std::int32_t>(code) - 128);
  }
};

}  // namespace hfshard
