#pragma once

#include <bit>
#include <cstdint>

#include "hfshard/dtype.h"

namespace hfshard {

inline float bf16_to_f32(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// Nearest even; NaN stays NaN (quiet, payload's high bits kept).
inline std::uint16_t f32_to_bf16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

/// IEEE half; exact.
float f16_to_f32(std::uint16_t bits) noexcept;
/// Nearest even, overflow to infinity, NaN stays NaN.
std::uint16_t f32_to_f16(float value) noexcept;

}  // namespace hfshard
