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

/// The even and the odd ones of 16 elements.
struct Floats16 {
  __m256 even;
  __m256 odd;
};

/// Returns the bf16s of 8-bit floats, each in a word.
template <typename Code>
HFSHARD_AVX2 inline __m256i bf16_of_fp8(__m256i codes) noexcept {
  using Form = Fp8<Code>;
  // The lower bytes of small numbers, then the upper ones.
  __m128i table;
  std::memcpy(&table, Form::kSmallBits.data(), sizeof table);
  table =
      _mm_shuffle_epi8(table, _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi16(0x7f));
  const __m256i normal = _mm256_add_epi16(_mm256_slli_epi16(magnitude, Form::kShift),
                                          _mm256_set1_epi16(Form::kRebias));
  const __m256i index = _mm256_or_si256(
      magnitude, _mm256_or_si256(_mm256_slli_epi16(magnitude, 8), _mm256_set1_epi16(0x800)));
  const __m256i small = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), index);
  const __m256i is_small = _mm256_cmpgt_epi16(_mm256_set1_epi16(Form::kSmall), magnitude);
  return _mm256_or_si256(_mm256_blendv_epi8(normal, small, is_small),
                         _mm256_slli_epi16(_mm256_xor_si256(codes, magnitude), 8));
}

/// Returns the f32 values of the 4-bit codes that are `kShift` bits above the end of each lane.
template <typename Code, int kShift>
HFSHARD_AVX2 inline __m256 widen_nibbles(__m256i lanes) noexcept {
  const __m256i codes = _mm256_srli_epi32(lanes, kShift);
  if constexpr (std::is_same_v<Code, Int4>) {
    return _mm256_cvtepi32_ps(
        _mm256_sub_epi32(_mm256_and_si256(codes, _mm256_set1_epi32(15)), _mm256_set1_epi32(8)));
  } else {
    const __m256 sizes = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
    const __m256 sign = _mm256_and_ps(_mm256_castsi256_ps(_mm256_slli_epi32(lanes, 28 - kShift)),
                                      _mm256_set1_ps(-0.0F));
    return _mm256_or_ps(_mm256_permutevar8x32_ps(sizes, codes), sign);  // ignores higher bits
  }
}

/// Reads 16 codes as f32. Adds to `bad` the 8-bit floats that aren't finite.
template <typename Code>
HFSHARD_AVX2 inline Floats16 widen16(const std::byte* codes, __m128i& bad) noexcept {
  __m128i bytes = _mm_setzero_si128();
  std::memcpy(&bytes, codes, code_bytes<Code>(16));
  if constexpr (kIsNibble<Code>) {
    const __m256i lanes = _mm256_cvtepu8_epi32(bytes);
    return {widen_nibbles<Code, 0>(lanes), widen_nibbles<Code, 4>(lanes)};
  } else if constexpr (kIsFp8<Code>) {
    const __m128i magnitude = _mm_and_si128(bytes, _mm_set1_epi8(0x7f));
    bad = _mm_or_si128(bad, _mm_cmpgt_epi8(magnitude, _mm_set1_epi8(Fp8<Code>::kLast)));
    const __m256i words = bf16_of_fp8<Code>(_mm256_cvtepu8_epi16(bytes));
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xffff0000U));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(words, 16)),
            _mm256_castsi256_ps(_mm256_and_si256(words, upper))};
  } else {
    // Both kinds of integers as two's complement.
    if constexpr (std::is_same_v<Code, Uint8>)
      bytes = _mm_xor_si128(bytes, _mm_set1_epi8(static_cast<char>(0x80)));
    const __m256i words = _mm256_cvtepi8_epi16(bytes);
    return {_mm256_cvtepi32_ps(_mm256_srai_epi32(_mm256_slli_epi32(words, 16), 16)),
            _mm256_cvtepi32_ps(_mm256_srai_epi32(words, 16))};
  }
}

/// Rounds to bf16 in the upper half of each lane.
HFSHARD_AVX2 inline __m256i rounded_to_bf16(__m256 x) noexcept {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
}

/// Rounds 16 floats and writes them in order.
template <typename To>
HFSHARD_AVX2 inline void store16(const Floats16& x, std::byte* dst) noexcept {
  if constexpr (std::is_same_v<To, F32>) {
    const __m256 low = _mm256_unpacklo_ps(x.even, x.odd);
    const __m256 high = _mm256_unpackhi_ps(x.even, x.odd);
    const __m256 out[2] = {_mm256_permute2f128_ps(low, high, 0x20),
                           _mm256_permute2f128_ps(low, high, 0x31)};
    std::memcpy(dst, &out, sizeof out);
  } else {
    const __m256i out = _mm256_blend_epi16(_mm256_srli_epi32(rounded_to_bf16(x.even), 16),
                                           rounded_to_bf16(x.odd), 0xaa);
    std::memcpy(dst, &out, sizeof out);
  }
}

/// The numbers of one step.
struct Arithmetic16 {
  __m256 zero, scale, mul, add;
  bool computes;
};

template <typename Code>
HFSHARD_AVX2 inline __m256 decoded(__m256 x, const Arithmetic16& by) noexcept {
  if constexpr (!kIsFloatCode<Code>) x = _mm256_sub_ps(x, by.zero);
  x = _mm256_mul_ps(x, by.scale);
  return by.computes ? _mm256_add_ps(_mm256_mul_ps(x, by.mul), by.add) : x;
}

/// Decodes 16 codes at a time. Without F16C, it can't round to f16.
template <typename Code, typename To>
HFSHARD_AVX2 bool decode_even_avx2(const EvenRuns& runs, const Value& value) noexcept {
  constexpr std::size_t kStep = kEvenStep<Simd::avx2>;
  const FullValue full(value);
  Arithmetic16 by{_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_set1_ps(full.mul),
                  _mm256_set1_ps(full.add), !value.empty()};
  __m128i bad = _mm_setzero_si128();
  const std::byte* from = runs.codes;
  std::byte* to = runs.dst;
  for (std::size_t run = 0; run < runs.count; ++run) {
    by.zero = _mm256_set1_ps(runs.zeros[run]);
    by.scale = _mm256_set1_ps(runs.scales[run]);
    for (std::size_t i = 0; i < runs.length; i += kStep) {
      const Floats16 x = widen16<Code>(from, bad);
      store16<To>({decoded<Code>(x.even, by), decoded<Code>(x.odd, by)}, to);
      from += code_bytes<Code>(kStep);
      to += kStep * sizeof(typename To::Bits);
    }
  }
  return _mm_testz_si128(bad, bad) != 0;
}

}  // namespace hfshard
#endif
