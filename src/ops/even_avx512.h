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
inline constexpr __mmask32 kOddWords = 0xaaaaaaaa;

/// The even and the odd ones of 32 elements.
struct Floats32 {
  __m512 even;
  __m512 odd;
};

/// Returns the bf16s of 8-bit floats, each in a word.
template <typename Code>
HFSHARD_AVX512 inline __m512i bf16_of_fp8(__m512i codes) noexcept {
  using Form = Fp8<Code>;
  __m128i table;
  std::memcpy(&table, Form::kSmallBits.data(), sizeof table);
  const __m512i small = _mm512_castsi128_si512(table);
  const __m512i magnitude = _mm512_and_si512(codes, _mm512_set1_epi16(0x7f));
  const __m512i normal = _mm512_add_epi16(_mm512_slli_epi16(magnitude, Form::kShift),
                                          _mm512_set1_epi16(Form::kRebias));
  const __mmask32 is_small = _mm512_cmplt_epu16_mask(magnitude, _mm512_set1_epi16(Form::kSmall));
  const __m512i size = _mm512_mask_permutexvar_epi16(normal, is_small, magnitude, small);
  return _mm512_or_si512(size, _mm512_slli_epi16(_mm512_xor_si512(codes, magnitude), 8));
}

/// Returns the f32 values of 4-bit codes, in the low bits of each lane.
template <typename Code>
HFSHARD_AVX512 inline __m512 widen_nibbles(__m512i lanes) noexcept {
  if constexpr (std::is_same_v<Code, Int4>) {
    const __m512i code = _mm512_and_si512(lanes, _mm512_set1_epi32(15));
    return _mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_sub_epi32(code, _mm512_set1_epi32(8)));
  } else {
    const __m512 values = _mm512_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F, -0.0F,
                                         -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F);
    return _mm512_maskz_permutexvar_ps(kEveryLane, lanes, values);  // ignores higher bits
  }
}

/// Reads 32 codes as f32. Adds to `bad` the 8-bit floats that aren't finite.
template <typename Code>
HFSHARD_AVX512 inline Floats32 widen32(const std::byte* codes, __m256i& bad) noexcept {
  if constexpr (kIsNibble<Code>) {
    __m128i bytes;
    std::memcpy(&bytes, codes, sizeof bytes);
    const __m512i lanes = _mm512_maskz_cvtepu8_epi32(kEveryLane, bytes);
    return {widen_nibbles<Code>(lanes),
            widen_nibbles<Code>(_mm512_maskz_srli_epi32(kEveryLane, lanes, 4))};
  } else {
    __m256i bytes;
    std::memcpy(&bytes, codes, sizeof bytes);
    if constexpr (kIsFp8<Code>) {
      const __m256i magnitude = _mm256_and_si256(bytes, _mm256_set1_epi8(0x7f));
      bad = _mm256_or_si256(bad, _mm256_cmpgt_epi8(magnitude, _mm256_set1_epi8(Fp8<Code>::kLast)));
      const __m512i words = bf16_of_fp8<Code>(_mm512_cvtepu8_epi16(bytes));
      const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
      return {_mm512_castsi512_ps(_mm512_maskz_slli_epi32(kEveryLane, words, 16)),
              _mm512_castsi512_ps(_mm512_and_si512(words, upper))};
    } else {
      // Both kinds of integers as two's complement.
      if constexpr (std::is_same_v<Code, Uint8>)
        bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80)));
      const __m512i words = _mm512_cvtepi8_epi16(bytes);
      const __m512i even = _mm512_maskz_slli_epi32(kEveryLane, words, 16);
      return {_mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_maskz_srai_epi32(kEveryLane, even, 16)),
              _mm512_maskz_cvtepi32_ps(kEveryLane, _mm512_maskz_srai_epi32(kEveryLane, words, 16))};
    }
  }
}

/// Rounds to bf16 in the upper half of each lane.
HFSHARD_AVX512 inline __m512i rounded_to_bf16(__m512 x) noexcept {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i sum = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff));
  return _mm512_mask_add_epi32(sum, odd, sum, _mm512_set1_epi32(1));
}

/// Rounds to f16 in the lower half of each lane.
HFSHARD_AVX512 inline __m512i rounded_to_f16(__m512 x) noexcept {
  return _mm512_maskz_cvtepu16_epi32(
      kEveryLane, _mm512_maskz_cvtps_ph(kEveryLane, x, _MM_FROUND_TO_NEAREST_INT));
}

/// Rounds 32 floats and writes them in order.
template <typename To>
HFSHARD_AVX512 inline void store32(const Floats32& x, std::byte* dst) noexcept {
  if constexpr (std::is_same_v<To, F32>) {
    const __m512i first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    const __m512 out[2] = {_mm512_permutex2var_ps(x.even, first, x.odd),
                           _mm512_permutex2var_ps(x.even, second, x.odd)};
    std::memcpy(dst, &out[0], sizeof out[0]);
    std::memcpy(dst + sizeof out[0], &out[1], sizeof out[1]);
  } else if constexpr (std::is_same_v<To, F16>) {
    const __m512i out = _mm512_or_si512(
        rounded_to_f16(x.even), _mm512_maskz_slli_epi32(kEveryLane, rounded_to_f16(x.odd), 16));
    std::memcpy(dst, &out, sizeof out);
  } else {
    const __m512i even = _mm512_maskz_srli_epi32(kEveryLane, rounded_to_bf16(x.even), 16);
    const __m512i out = _mm512_mask_blend_epi16(kOddWords, even, rounded_to_bf16(x.odd));
    std::memcpy(dst, &out, sizeof out);
  }
}

/// Returns the numbers of two runs, each in half of the lanes.
HFSHARD_AVX512 inline __m512 two_runs(float first, float second) noexcept {
  constexpr __mmask16 kSecondHalf = 0xff00;
  return _mm512_mask_blend_ps(kSecondHalf, _mm512_set1_ps(first), _mm512_set1_ps(second));
}

/// The numbers of one step.
struct Arithmetic32 {
  __m512 zero, scale, mul, add;
  bool computes;
};

template <typename Code, bool kHalves>
HFSHARD_AVX512 inline __m512 decoded(__m512 x, const Arithmetic32& by) noexcept {
  if constexpr (!kIsFloatCode<Code>) x = _mm512_sub_ps(x, by.zero);
  x = _mm512_mul_ps(x, by.scale);
  if constexpr (kHalves) {
    x = _mm512_maskz_cvtph_ps(kEveryLane,
                              _mm512_maskz_cvtps_ph(kEveryLane, x, _MM_FROUND_TO_NEAREST_INT));
  }
  return by.computes ? _mm512_add_ps(_mm512_mul_ps(x, by.mul), by.add) : x;
}

/// Decodes 32 codes at a time.
template <typename Code, typename To, bool kHalves>
HFSHARD_AVX512 bool decode_even_avx512(const EvenRuns& runs, const Value& value) noexcept {
  constexpr std::size_t kStep = kEvenStep<Simd::avx512>;
  const FullValue full(value);
  Arithmetic32 by{_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_set1_ps(full.mul),
                  _mm512_set1_ps(full.add), !value.empty()};
  const std::size_t together = runs_per_step<Simd::avx512>(runs.length);
  __m256i bad = _mm256_setzero_si256();
  const std::byte* from = runs.codes;
  std::byte* to = runs.dst;
  for (std::size_t run = 0; run < runs.count; run += together) {
    const std::size_t second = run + together - 1;
    by.zero = two_runs(runs.zeros[run], runs.zeros[second]);
    by.scale = two_runs(runs.scales[run], runs.scales[second]);
    for (std::size_t i = 0; i < runs.length * together; i += kStep) {
      const Floats32 x = widen32<Code>(from, bad);
      store32<To>({decoded<Code, kHalves>(x.even, by), decoded<Code, kHalves>(x.odd, by)}, to);
      from += code_bytes<Code>(kStep);
      to += kStep * sizeof(typename To::Bits);
    }
  }
  return _mm256_testz_si256(bad, bad) != 0;
}

}  // namespace hfshard
#endif
