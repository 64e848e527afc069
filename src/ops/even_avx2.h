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

struct TwoFloats8 {
  __m256 first;
  __m256 second;
};

/// Returns the f32 values of 8 codes in the low bytes. Sets `bad` for NaNs that look finite.
template <typename Code>
HFSHARD_AVX2 inline __m256 widen8(__m256i codes, __m256i& bad) noexcept {
  if constexpr (std::is_same_v<Code, Int8>) return _mm256_cvtepi32_ps(codes);
  if constexpr (std::is_same_v<Code, Uint8>)
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(128)));
  if constexpr (std::is_same_v<Code, Int4>)
    return _mm256_cvtepi32_ps(_mm256_sub_epi32(codes, _mm256_set1_epi32(8)));
  if constexpr (std::is_same_v<Code, F4E2M1>) {
    const __m256 values = _mm256_setr_ps(0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F);
    const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_srli_epi32(codes, 3), 31));
    return _mm256_or_ps(_mm256_permutevar8x32_ps(values, codes), sign);
  }
  constexpr int kFraction = std::is_same_v<Code, F8E4M3> ? 3 : 2;
  constexpr int kBias = std::is_same_v<Code, F8E4M3> ? 7 : 15;
  // The smallest numbers, which have no leading bit.
  constexpr float kUnit = std::is_same_v<Code, F8E4M3> ? 0x1p-9F : 0x1p-16F;
  const __m256 small =
      _mm256_setr_ps(0, kUnit, 2 * kUnit, 3 * kUnit, 4 * kUnit, 5 * kUnit, 6 * kUnit, 7 * kUnit);
  const __m256i magnitude = _mm256_and_si256(codes, _mm256_set1_epi32(0x7f));
  const __m256i sign = _mm256_slli_epi32(_mm256_xor_si256(codes, magnitude), 24);
  const __m256i normal = _mm256_add_epi32(_mm256_slli_epi32(magnitude, 23 - kFraction),
                                          _mm256_set1_epi32((127 - kBias) << 23));
  const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32(1 << kFraction), magnitude);
  const int last = std::is_same_v<Code, F8E4M3> ? 0x7e : 0x7b;
  bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(last)));
  const __m256 size =
      _mm256_blendv_ps(_mm256_castsi256_ps(normal), _mm256_permutevar8x32_ps(small, magnitude),
                       _mm256_castsi256_ps(is_small));
  return _mm256_or_ps(size, _mm256_castsi256_ps(sign));
}

template <typename Code>
HFSHARD_AVX2 inline TwoFloats8 widen_two8(const std::byte* codes, __m256i& bad) noexcept {
  const __m128i bytes = read_step<Code>(codes);
  const __m128i upper = _mm_srli_si128(bytes, 8);
  if constexpr (std::is_same_v<Code, Int8>) {
    return {widen8<Code>(_mm256_cvtepi8_epi32(bytes), bad),
            widen8<Code>(_mm256_cvtepi8_epi32(upper), bad)};
  }
  return {widen8<Code>(_mm256_cvtepu8_epi32(bytes), bad),
          widen8<Code>(_mm256_cvtepu8_epi32(upper), bad)};
}

HFSHARD_AVX2 inline __m256i rounded_to_bf16(__m256 x) noexcept {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff)),
                           16);
}

/// Rounds 16 floats and writes them.
template <typename To>
HFSHARD_AVX2 inline void store_two8(const TwoFloats8& x, std::byte* dst) noexcept {
  if constexpr (std::is_same_v<To, F32>) {
    std::memcpy(dst, &x, sizeof x);
  } else {
    const __m256i out = _mm256_permute4x64_epi64(
        _mm256_packus_epi32(rounded_to_bf16(x.first), rounded_to_bf16(x.second)), 0xd8);
    std::memcpy(dst, &out, sizeof out);
  }
}

/// Decodes twice 8 floats at a time. Without F16C, it can't round to f16.
template <typename Code, typename To>
HFSHARD_AVX2 bool decode_even_avx2(const EvenRuns& runs, const Value& value) noexcept {
  const bool computes = !value.empty();
  const FullValue full(value);
  const __m256 mul = _mm256_set1_ps(full.mul);
  const __m256 add = _mm256_set1_ps(full.add);
  const __m256i low = _mm256_set1_epi32(0x7fffffff);
  __m256i most = _mm256_setzero_si256();
  __m256i bad = _mm256_setzero_si256();
  const std::byte* from = runs.codes;
  std::byte* to = runs.dst;
  for (std::size_t run = 0; run < runs.count; ++run) {
    const __m256 scale = _mm256_set1_ps(runs.scales[run]);
    const __m256 zero = _mm256_set1_ps(runs.zeros[run]);
    for (std::size_t i = 0; i < runs.length; i += kEvenStep) {
      TwoFloats8 x = widen_two8<Code>(from, bad);
      if constexpr (!kIsFloatCode<Code>) {
        x.first = _mm256_sub_ps(x.first, zero);
        x.second = _mm256_sub_ps(x.second, zero);
      }
      x.first = _mm256_mul_ps(x.first, scale);
      x.second = _mm256_mul_ps(x.second, scale);
      if (computes) {
        x.first = _mm256_add_ps(_mm256_mul_ps(x.first, mul), add);
        x.second = _mm256_add_ps(_mm256_mul_ps(x.second, mul), add);
      }
      most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(x.first), low));
      most = _mm256_max_epu32(most, _mm256_and_si256(_mm256_castps_si256(x.second), low));
      store_two8<To>(x, to);
      from += kStepBytes<Code>;
      to += kEvenStep * sizeof(typename To::Bits);
    }
  }
  // Both are below 2^31.
  const __m256i limit = _mm256_set1_epi32(static_cast<int>(least_infinite<To>() - 1));
  bad = _mm256_or_si256(bad, _mm256_cmpgt_epi32(most, limit));
  return _mm256_testz_si256(bad, bad) != 0;
}

}  // namespace hfshard
#endif
