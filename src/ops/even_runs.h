#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ops/code_values.h"
#include "ops/float_block.h"
#include "ops/simd.h"
#include "ops/value.h"

namespace hfshard {

/// Codes per step of a vectorized loop. A 32-bit lane has two: the even one below the odd one.
template <Simd kLevel>
inline constexpr std::size_t kEvenStep = kLevel == Simd::avx512 ? 32 : 16;

/// Runs of equal length, one after another. Each shares a scale and a zero point. Every value of
/// them is finite, except for codes that aren't.
struct EvenRuns {
  const std::byte* codes;  ///< packed; 4-bit codes begin with a whole byte
  std::byte* dst;
  std::size_t length;  ///< elements of a run, see runs_per_step
  std::size_t count;   ///< runs, a multiple of runs_per_step
  const float* scales;
  const float* zeros;
};

/// Returns the runs of a length that a level's loop takes at a time. 0 if it can't.
template <Simd kLevel>
constexpr std::size_t runs_per_step(std::size_t length) noexcept {
  if (length % kEvenStep<kLevel> == 0) return 1;
  return kLevel == Simd::avx512 && 2 * length == kEvenStep<kLevel> ? 2 : 0;
}

/// Returns the smallest magnitude, as f32 bits, that becomes infinite in a target dtype.
template <typename To>
constexpr std::uint32_t least_infinite() noexcept {
  if constexpr (std::is_same_v<To, Bf16>) return 0x7f7f8000U;
  if constexpr (std::is_same_v<To, F16>) return 0x477ff000U;
  return 0x7f800000U;
}

/// 8-bit floats. Only they have codes that aren't finite.
template <typename Code>
inline constexpr bool kIsFp8 = std::is_same_v<Code, F8E4M3> || std::is_same_v<Code, F8E5M2>;
/// Codes that are floats have no zero point.
template <typename Code>
inline constexpr bool kIsFloatCode = kIsFp8<Code> || std::is_same_v<Code, F4E2M1>;
template <typename Code>
inline constexpr bool kIsNibble = std::is_same_v<Code, F4E2M1> || std::is_same_v<Code, Int4>;
/// Returns the bytes of a number of codes.
template <typename Code>
constexpr std::uint64_t code_bytes(std::uint64_t codes) noexcept {
  return kIsNibble<Code> ? codes / 2 : codes;
}

/// The layout of an 8-bit float.
template <typename Code>
struct Fp8 {
  static constexpr int kFraction = std::is_same_v<Code, F8E4M3> ? 3 : 2;
  static constexpr int kBias = std::is_same_v<Code, F8E4M3> ? 7 : 15;
  /// The largest finite magnitude.
  static constexpr std::int8_t kLast = std::is_same_v<Code, F8E4M3> ? 0x7e : 0x7b;
  /// Magnitudes below this have no leading bit.
  static constexpr std::int16_t kSmall = 1 << kFraction;
  /// Shifts the fraction to its place in a bf16, and adds the difference of the biases.
  static constexpr int kShift = 7 - kFraction;
  static constexpr std::int16_t kRebias = (127 - kBias) << 7;

  /// The bf16s of magnitudes below kSmall.
  static constexpr std::array<std::uint16_t, 8> kSmallBits = [] {
    constexpr float kUnit = std::is_same_v<Code, F8E4M3> ? 0x1p-9F : 0x1p-16F;
    std::array<std::uint16_t, 8> out{};
    for (std::size_t i = 0; i < kSmall; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(i) * kUnit);
      out[i] = static_cast<std::uint16_t>(bits >> 16);
    }
    return out;
  }();
};

// decode_even_avx512 and decode_even_avx2 work like Decoder in decode.cpp, which explains the
// arithmetic. They return false if a code isn't finite. The bytes in `dst` aren't the result then.

}  // namespace hfshard
