#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ops/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hfshard {

/// The value for each 4-bit code.
template <typename Bits>
using CodeTable = std::array<Bits, 16>;

// The functions below write the entries for the two codes of each byte, low nibble first. The
// vectorized ones return the bytes that they handled; the rest is less than 16.

#if defined(__x86_64__)
HFSHARD_AVX2 inline std::size_t expand_avx2(const CodeTable<std::uint16_t>& table,
                                            const std::byte* codes, std::size_t bytes,
                                            std::byte* dst) noexcept {
  const __m256i low_byte = _mm256_set1_epi16(0xff);
  const __m256i nibble = _mm256_set1_epi8(15);
  __m256i entries;
  std::memcpy(&entries, table.data(), sizeof entries);
  // The bytes of 16 entries, in the order of the entries, in both lanes.
  const __m256i low = _mm256_permute4x64_epi64(
      _mm256_packus_epi16(_mm256_and_si256(entries, low_byte), _mm256_setzero_si256()), 0x88);
  const __m256i high = _mm256_permute4x64_epi64(
      _mm256_packus_epi16(_mm256_srli_epi16(entries, 8), _mm256_setzero_si256()), 0x88);
  std::size_t done = 0;
  for (; bytes - done >= 16; done += 16) {
    __m128i part;
    std::memcpy(&part, codes + done, sizeof part);
    const __m128i odd = _mm_srli_epi16(part, 4);
    const __m256i index = _mm256_and_si256(
        _mm256_set_m128i(
            _mm_unpackhi_epi8(_mm_and_si128(part, _mm256_castsi256_si128(nibble)), odd),
            _mm_unpacklo_epi8(_mm_and_si128(part, _mm256_castsi256_si128(nibble)), odd)),
        nibble);
    const __m256i low_out = _mm256_shuffle_epi8(low, index);
    const __m256i high_out = _mm256_shuffle_epi8(high, index);
    const __m256i first = _mm256_unpacklo_epi8(low_out, high_out);
    const __m256i second = _mm256_unpackhi_epi8(low_out, high_out);
    const __m256i out[2] = {_mm256_permute2x128_si256(first, second, 0x20),
                            _mm256_permute2x128_si256(first, second, 0x31)};
    std::memcpy(dst + 4 * done, &out[0], sizeof out[0]);
    std::memcpy(dst + 4 * done + sizeof out[0], &out[1], sizeof out[1]);
  }
  return done;
}

HFSHARD_AVX512 inline std::size_t expand_avx512(const CodeTable<std::uint16_t>& table,
                                                const std::byte* codes, std::size_t bytes,
                                                std::byte* dst) noexcept {
  // Unmasked forms make g++ 12 warn about uninitialized variables in its own header.
  constexpr __mmask16 kAll = 0xffff;
  __m256i half;
  std::memcpy(&half, table.data(), sizeof half);
  const __m512i entries = _mm512_castsi256_si512(half);
  const __m512i nibbles = _mm512_set1_epi32(0x000f000f);
  std::size_t done = 0;
  for (; bytes - done >= 16; done += 16) {
    __m128i part;
    std::memcpy(&part, codes + done, sizeof part);
    const __m512i wide = _mm512_maskz_cvtepu8_epi32(kAll, part);
    const __m512i index =
        _mm512_and_si512(_mm512_or_si512(wide, _mm512_maskz_slli_epi32(kAll, wide, 12)), nibbles);
    const __m512i out = _mm512_permutexvar_epi16(index, entries);
    std::memcpy(dst + 4 * done, &out, sizeof out);
  }
  return done;
}
#endif

template <Simd kLevel, typename Bits>
void expand_codes(const CodeTable<Bits>& table, const std::byte* codes, std::size_t bytes,
                  std::byte* dst) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  if constexpr (sizeof(Bits) == 2 && kLevel == Simd::avx512) {
    done = expand_avx512(table, codes, bytes, dst);
  } else if constexpr (sizeof(Bits) == 2 && kLevel == Simd::avx2) {
    done = expand_avx2(table, codes, bytes, dst);
  }
#endif
  for (; done < bytes; ++done) {
    const auto byte = std::to_integer<std::size_t>(codes[done]);
    std::memcpy(dst + 2 * done * sizeof(Bits), &table[byte & 15U], sizeof(Bits));
    std::memcpy(dst + (2 * done + 1) * sizeof(Bits), &table[byte >> 4], sizeof(Bits));
  }
}

}  // namespace hfshard
