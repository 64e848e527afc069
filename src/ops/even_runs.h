#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ops/code_values.h"
#include "ops/float_block.h"
#include "ops/value.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hfshard {

/// Codes per step of the vectorized loops, which decode only runs of a multiple of this.
inline constexpr std::size_t kEvenStep = 16;

/// Runs of equal length, one after another. Each shares a scale and a zero point.
struct EvenRuns {
  const std::byte* codes;  ///< packed; 4-bit codes begin with a whole byte
  std::byte* dst;
  std::size_t length;  ///< elements of a run, a multiple of kEvenStep
  std::size_t count;   ///< runs
  const float* scales;
  const float* zeros;
};

/// Returns the smallest magnitude, as f32 bits, that becomes infinite in a target dtype.
template <typename To>
constexpr std::uint32_t least_infinite() noexcept {
  if constexpr (std::is_same_v<To, Bf16>) return 0x7f7f8000U;
  if constexpr (std::is_same_v<To, F16>) return 0x477ff000U;
  return 0x7f800000U;
}

/// Codes that are floats have no zero point.
template <typename Code>
inline constexpr bool kIsFloatCode =
    std::is_same_v<Code, F8E4M3> || std::is_same_v<Code, F8E5M2> || std::is_same_v<Code, F4E2M1>;
template <typename Code>
inline constexpr bool kIsNibble = std::is_same_v<Code, F4E2M1> || std::is_same_v<Code, Int4>;
/// The bytes of the codes of one step.
template <typename Code>
inline constexpr std::size_t kStepBytes = kIsNibble<Code> ? kEvenStep / 2 : kEvenStep;

#if defined(__x86_64__)
/// Reads the codes of one step, each into a byte.
template <typename Code>
inline __m128i read_step(const std::byte* codes) noexcept {
  __m128i bytes = _mm_setzero_si128();
  std::memcpy(&bytes, codes, kStepBytes<Code>);
  if constexpr (!kIsNibble<Code>) return bytes;
  const __m128i nibble = _mm_set1_epi8(15);
  return _mm_unpacklo_epi8(_mm_and_si128(bytes, nibble),
                           _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble));
}
#endif

// decode_even_avx512 and decode_even_avx2 work like Decoder in decode.cpp, which explains the
// arithmetic. They assume that every number is finite, and return false if one isn't. The bytes in
// `dst` aren't the result then.

}  // namespace hfshard
