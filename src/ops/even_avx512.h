#pragma once

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "ops/code_values.h"
#include "ops/even_runs.h"
#include "ops/float_block.h"
#include "ops/simd.h"
#include "ops/value.h"

#if defined(__x86_64__)
#include <immintrin.h>

namespace hfshard {

// Unmasked forms make g++ 12 warn about uninitialized variables in its own header.
inline constexpr __mmask16 kEveryLane = 0xffff;

/// Reads 16 codes as f32. Sets `bad` for NaNs that look finite.
template <typename Code>
HFSHARD_AVX512 inline __m512 widen16(const std::byte* codes, __mmask16& bad) noexcept {
  const __m128i bytes = read_step<Code>(codes);
  if constexpr (kIsNibble<Code>) {
    const __m512i index = _mm512_maskz_cvtepu8_epi32(kEveryLane, bytes);
    if constexpr (std::is_same_v<Code, Int4>)
      return _mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_sub_epi32(index, _mm512_set1_epi32(8)));
    const __m512 values = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F,
                                         -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
    return _mm512_maskz_permutexvar_ps(kEveryLane, index, values);
  } else {
    if constexpr (std::is_same_v<Code, Int8>)
      return _mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_maskz_cvtepi8_epi32(kEveryLane, bytes));
    if constexpr (std::is_same_v<Code, Uint8>) {
      return _mm512_maskz_cvtepi32_ps(
          kEveryLane,
          _mm512_sub_epi32(_mm512_maskz_cvtepu8_epi32(kEveryLane, bytes), _mm512_set1_epi32(128)));
    }
    const __m256i wide = _mm256_cvtepu8_epi16(bytes);
    if constexpr (std::is_same_v<Code, F8E5M2>)
      return _mm512_maskz_cvtph_ps(kEveryLane, _mm256_slli_epi16(wide, 8));
    const __m256i low = _mm256_set1_epi16(0x7f);
    const __m256i magnitude = _mm256_and_si256(wide, low);
    bad = static_cast<__mmask16>(bad | _mm256_cmpeq_epi16_mask(magnitude, low));
    const __m256i sign = _mm256_slli_epi16(_mm256_xor_si256(wide, magnitude), 8);
    return _mm512_maskz_cvtph_ps(kEveryLane,
                                 _mm256_or_si256(_mm256_slli_epi16(magnitude, 7), sign));
  }
}

/// Rounds 16 floats and writes them.
template <typename To>
HFSHARD_AVX512 inline void store16(__m512 x, std::byte* dst) noexcept {
  if constexpr (std::is_same_v<To, F32>) {
    std::memcpy(dst, &x, sizeof x);
  } else if constexpr (std::is_same_v<To, F16>) {
    const __m256i out = _mm512_maskz_cvtps_ph(kEveryLane, x, _MM_FROUND_TO_NEAREST_INT);
    std::memcpy(dst, &out, sizeof out);
  } else {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd =
        _mm512_and_si512(_mm512_maskz_srli_epi32(kEveryLane, bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    const __m256i out =
        _mm512_maskz_cvtepi32_epi16(kEveryLane, _mm512_maskz_srli_epi32(kEveryLane, rounded, 16));
    std::memcpy(dst, &out, sizeof out);
  }
}

/// Decodes 16 floats at a time.
template <typename Code, typename To, bool kHalves>
HFSHARD_AVX512 bool decode_even_avx512(const EvenRuns& runs, const Value& value) noexcept {
  // As an f16, an e4m3 code has 2^-8 of its value.
  constexpr float kFactor = std::is_same_v<Code, F8E4M3> ? 256.0F : 1.0F;
  const bool computes = !value.empty();
  const FullValue full(value);
  const __m512 mul = _mm512_set1_ps(full.mul);
  const __m512 add = _mm512_set1_ps(full.add);
  const __m512i low = _mm512_set1_epi32(0x7fffffff);
  __m512i most = _mm512_setzero_si512();
  __mmask16 bad = 0;
  const std::byte* from = runs.codes;
  std::byte* to = runs.dst;
  for (std::size_t run = 0; run < runs.count; ++run) {
    const __m512 scale = _mm512_set1_ps(runs.scales[run] * kFactor);
    const __m512 zero = _mm512_set1_ps(runs.zeros[run]);
    for (std::size_t i = 0; i < runs.length; i += kEvenStep) {
      __m512 x = widen16<Code>(from, bad);
      if constexpr (!kIsFloatCode<Code>) x = _mm512_sub_ps(x, zero);
      x = _mm512_mul_ps(x, scale);
      if constexpr (kHalves) {
        x = _mm512_maskz_cvtph_ps(kEveryLane,
                                  _mm512_maskz_cvtps_ph(kEveryLane, x, _MM_FROUND_TO_NEAREST_INT));
      }
      if (computes) x = _mm512_add_ps(_mm512_mul_ps(x, mul), add);
      most =
          _mm512_maskz_max_epu32(kEveryLane, most, _mm512_and_si512(_mm512_castps_si512(x), low));
      store16<To>(x, to);
      from += kStepBytes<Code>;
      to += kEvenStep * sizeof(typename To::Bits);
    }
  }
  const __m512i limit = _mm512_set1_epi32(static_cast<int>(least_infinite<To>()));
  return bad == 0 && _mm512_cmpge_epu32_mask(most, limit) == 0;
}

}  // namespace hfshard
#endif
