#pragma once

#include <array>
#include <cstddef>
#include <cstring>

#include "ops/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Transposes blocks in registers. A block has `kSide` elements, 16 bytes, of each source row, which
// become as many target rows. Source row k begins at src + k * kPitch, target row k at out +
// outs[k]. All levels interleave the first half of the rows with the second, log2 of kSide times.
// Wider registers handle more source rows, with one group of kSide rows in each lane.

namespace hfshard {

inline constexpr std::size_t kLaneBytes = 16;
inline constexpr std::size_t kLineBytes = 64;  ///< of a cache line

/// Returns the source rows of a block.
template <Simd kLevel, std::size_t kBytes>
constexpr std::size_t block_rows() noexcept {
  constexpr std::size_t kLanes = kLevel == Simd::avx512 ? 4 : kLevel == Simd::avx2 ? 2 : 1;
  return kLanes * kLaneBytes / kBytes;
}

template <std::size_t kBytes, std::size_t kPitch>
void transpose_portable(const std::byte* src, std::byte* out, const std::ptrdiff_t* outs) noexcept {
  constexpr std::size_t kSide = kLaneBytes / kBytes;
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t k = 0; k < kSide; ++k) {
      std::memcpy(out + outs[i] + k * kBytes, src + k * kPitch + i * kBytes, kBytes);
    }
  }
}

#if defined(__x86_64__)

template <std::size_t kBytes, std::size_t kPitch>
void transpose_sse2(const std::byte* src, std::byte* out, const std::ptrdiff_t* outs) noexcept {
  constexpr std::size_t kSide = kLaneBytes / kBytes;
  __m128i a[kSide];
  __m128i b[kSide];
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(&a[k], src + k * kPitch, kLaneBytes);
  for (std::size_t pass = 1; pass < kSide; pass *= 2) {
    for (std::size_t k = 0; k < kSide / 2; ++k) {
      const __m128i x = a[k];
      const __m128i y = a[k + kSide / 2];
      if constexpr (kBytes == 1) {
        b[2 * k] = _mm_unpacklo_epi8(x, y);
        b[2 * k + 1] = _mm_unpackhi_epi8(x, y);
      } else if constexpr (kBytes == 2) {
        b[2 * k] = _mm_unpacklo_epi16(x, y);
        b[2 * k + 1] = _mm_unpackhi_epi16(x, y);
      } else if constexpr (kBytes == 4) {
        b[2 * k] = _mm_unpacklo_epi32(x, y);
        b[2 * k + 1] = _mm_unpackhi_epi32(x, y);
      } else {
        b[2 * k] = _mm_unpacklo_epi64(x, y);
        b[2 * k + 1] = _mm_unpackhi_epi64(x, y);
      }
    }
    for (std::size_t k = 0; k < kSide; ++k) a[k] = b[k];
  }
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(out + outs[k], &a[k], kLaneBytes);
}

template <std::size_t kStep>
HFSHARD_AVX2 void load_lanes(const std::byte* src, __m256i& to) noexcept {
  __m128i lanes[2];
  for (std::size_t k = 0; k < 2; ++k) std::memcpy(&lanes[k], src + k * kStep, kLaneBytes);
  to = _mm256_set_m128i(lanes[1], lanes[0]);
}

template <std::size_t kBytes, std::size_t kPitch>
HFSHARD_AVX2 void transpose_avx2(const std::byte* src, std::byte* out,
                                 const std::ptrdiff_t* outs) noexcept {
  constexpr std::size_t kSide = kLaneBytes / kBytes;
  __m256i a[kSide];
  __m256i b[kSide];
  for (std::size_t k = 0; k < kSide; ++k) load_lanes<kSide * kPitch>(src + k * kPitch, a[k]);
  for (std::size_t pass = 1; pass < kSide; pass *= 2) {
    for (std::size_t k = 0; k < kSide / 2; ++k) {
      const __m256i x = a[k];
      const __m256i y = a[k + kSide / 2];
      if constexpr (kBytes == 1) {
        b[2 * k] = _mm256_unpacklo_epi8(x, y);
        b[2 * k + 1] = _mm256_unpackhi_epi8(x, y);
      } else if constexpr (kBytes == 2) {
        b[2 * k] = _mm256_unpacklo_epi16(x, y);
        b[2 * k + 1] = _mm256_unpackhi_epi16(x, y);
      } else if constexpr (kBytes == 4) {
        b[2 * k] = _mm256_unpacklo_epi32(x, y);
        b[2 * k + 1] = _mm256_unpackhi_epi32(x, y);
      } else {
        b[2 * k] = _mm256_unpacklo_epi64(x, y);
        b[2 * k + 1] = _mm256_unpackhi_epi64(x, y);
      }
    }
    for (std::size_t k = 0; k < kSide; ++k) a[k] = b[k];
  }
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(out + outs[k], &a[k], sizeof a[k]);
}

template <std::size_t kStep>
HFSHARD_AVX512 void load_lanes(const std::byte* src, __m512i& to) noexcept {
  __m256i low;
  __m256i high;
  load_lanes<kStep>(src, low);
  load_lanes<kStep>(src + 2 * kStep, high);
  to = _mm512_maskz_inserti64x4(static_cast<__mmask8>(-1), _mm512_castsi256_si512(low), high, 1);
}

template <std::size_t kBytes, std::size_t kPitch>
HFSHARD_AVX512 void transpose_avx512(const std::byte* src, std::byte* out,
                                     const std::ptrdiff_t* outs) noexcept {
  constexpr std::size_t kSide = kLaneBytes / kBytes;
  constexpr auto kAll16 = static_cast<__mmask16>(-1);  // as in expand_codes.h
  constexpr auto kAll8 = static_cast<__mmask8>(-1);
  __m512i a[kSide];
  __m512i b[kSide];
  for (std::size_t k = 0; k < kSide; ++k) load_lanes<kSide * kPitch>(src + k * kPitch, a[k]);
  for (std::size_t pass = 1; pass < kSide; pass *= 2) {
    for (std::size_t k = 0; k < kSide / 2; ++k) {
      const __m512i x = a[k];
      const __m512i y = a[k + kSide / 2];
      if constexpr (kBytes == 1) {
        b[2 * k] = _mm512_unpacklo_epi8(x, y);
        b[2 * k + 1] = _mm512_unpackhi_epi8(x, y);
      } else if constexpr (kBytes == 2) {
        b[2 * k] = _mm512_unpacklo_epi16(x, y);
        b[2 * k + 1] = _mm512_unpackhi_epi16(x, y);
      } else if constexpr (kBytes == 4) {
        b[2 * k] = _mm512_maskz_unpacklo_epi32(kAll16, x, y);
        b[2 * k + 1] = _mm512_maskz_unpackhi_epi32(kAll16, x, y);
      } else {
        b[2 * k] = _mm512_maskz_unpacklo_epi64(kAll8, x, y);
        b[2 * k + 1] = _mm512_maskz_unpackhi_epi64(kAll8, x, y);
      }
    }
    for (std::size_t k = 0; k < kSide; ++k) a[k] = b[k];
  }
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(out + outs[k], &a[k], sizeof a[k]);
}

// These write one cache line and bypass the caches. `to` must be aligned.

inline void stream_sse2(std::byte* to, const std::byte* from) noexcept {
  for (std::size_t k = 0; k < 4; ++k) {
    __m128i value;
    std::memcpy(&value, from + k * sizeof value, sizeof value);
    _mm_stream_si128(static_cast<__m128i*>(static_cast<void*>(to)) + k, value);
  }
}

HFSHARD_AVX2 inline void stream_avx2(std::byte* to, const std::byte* from) noexcept {
  for (std::size_t k = 0; k < 2; ++k) {
    __m256i value;
    std::memcpy(&value, from + k * sizeof value, sizeof value);
    _mm256_stream_si256(static_cast<__m256i*>(static_cast<void*>(to)) + k, value);
  }
}

HFSHARD_AVX512 inline void stream_avx512(std::byte* to, const std::byte* from) noexcept {
  __m512i value;
  std::memcpy(&value, from, sizeof value);
  _mm512_stream_si512(static_cast<__m512i*>(static_cast<void*>(to)), value);
}

#endif

/// Writes one cache line and bypasses the caches. `to` must be aligned.
template <Simd kLevel>
void stream_line(std::byte* to, const std::byte* from) noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512) return stream_avx512(to, from);
  if constexpr (kLevel == Simd::avx2) return stream_avx2(to, from);
  if constexpr (kLevel == Simd::sse2) return stream_sse2(to, from);
#endif
  if constexpr (kLevel == Simd::portable) std::memcpy(to, from, kLineBytes);
}

/// Makes writes that bypassed the caches visible to other threads, like other stores.
inline void finish_streams() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <Simd kLevel, std::size_t kBytes, std::size_t kPitch>
void transpose_block(const std::byte* src, std::byte* out, const std::ptrdiff_t* outs) noexcept {
#if defined(__x86_64__)
  if constexpr (kLevel == Simd::avx512) return transpose_avx512<kBytes, kPitch>(src, out, outs);
  if constexpr (kLevel == Simd::avx2) return transpose_avx2<kBytes, kPitch>(src, out, outs);
  if constexpr (kLevel == Simd::sse2) return transpose_sse2<kBytes, kPitch>(src, out, outs);
#endif
  if constexpr (kLevel == Simd::portable) transpose_portable<kBytes, kPitch>(src, out, outs);
}

}  // namespace hfshard
