#include "base/crc32.h"

// As in the layer's other file: with it, zlib takes its input as constant.
#ifndef ZLIB_CONST
#define ZLIB_CONST  // NOLINT(readability-identifier-naming): zlib's own name
#endif
#include <zlib.h>

#include "base/coding.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hfshard {
namespace {

std::uint32_t extend_zlib(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  static_assert(sizeof(z_size_t) == sizeof(std::size_t));
  const void* data = bytes.data();
  return static_cast<std::uint32_t>(
      crc32_z(crc, bytes.empty() ? nullptr : static_cast<const Bytef*>(data), bytes.size()));
}

#if defined(__x86_64__)

// Below this the set-up does not pay.
constexpr std::size_t kLeastFolded = 128;
constexpr std::size_t kBlock = 64;

__attribute__((target("pclmul,sse4.1"))) __m128i load_block(const std::byte* at) noexcept {
  return _mm_set_epi64x(static_cast<std::int64_t>(load_le<std::uint64_t>(at + 8)),
                        static_cast<std::int64_t>(load_le<std::uint64_t>(at)));
}

// Moves a remainder on by the distance that the two constants stand for, and adds what lies there.
__attribute__((target("pclmul,sse4.1"))) __m128i fold(__m128i value, __m128i by,
                                                      __m128i next) noexcept {
  const __m128i low = _mm_clmulepi64_si128(value, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(value, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Folds four registers of 128 bits over whole blocks of 64 bytes, then those to one, and divides it
// by the polynomial (Barrett). The constants are x^n modulo the polynomial, reflected, for n of
// 4*128 +- 32, 128 +- 32 and 64. Source: Gopal et al., Fast CRC Computation for Generic Polynomials
// Using PCLMULQDQ Instruction (Intel, 2009), figure 1 and the table of its section on CRC-32.
__attribute__((target("pclmul,sse4.1"))) std::uint32_t fold_blocks(std::uint32_t state,
                                                                   const std::byte* at,
                                                                   std::size_t size) noexcept {
  const __m128i by_four = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
  const __m128i by_one = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
  __m128i a = _mm_xor_si128(load_block(at), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = load_block(at + 16);
  __m128i c = load_block(at + 32);
  __m128i d = load_block(at + 48);
  for (at += kBlock, size -= kBlock; size >= kBlock; at += kBlock, size -= kBlock) {
    a = fold(a, by_four, load_block(at));
    b = fold(b, by_four, load_block(at + 16));
    c = fold(c, by_four, load_block(at + 32));
    d = fold(d, by_four, load_block(at + 48));
  }
  a = fold(fold(fold(a, by_one, b), by_one, c), by_one, d);
  // 128 bits to 64.
  const __m128i low_words = _mm_setr_epi32(-1, 0, -1, 0);
  a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_one, 0x10));
  const __m128i by_half = _mm_set_epi64x(0, 0x0163cd6124);
  a = _mm_xor_si128(_mm_srli_si128(a, 4),
                    _mm_clmulepi64_si128(_mm_and_si128(a, low_words), by_half, 0x00));
  const __m128i divisor = _mm_set_epi64x(0x01f7011641, 0x01db710641);
  __m128i t = _mm_clmulepi64_si128(_mm_and_si128(a, low_words), divisor, 0x10);
  t = _mm_clmulepi64_si128(_mm_and_si128(t, low_words), divisor, 0x00);
  return static_cast<std::uint32_t>(_mm_extract_epi32(_mm_xor_si128(a, t), 1));
}

std::uint32_t extend_folded(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < kLeastFolded) return extend_zlib(crc, bytes);
  const std::size_t folded = bytes.size() / kBlock * kBlock;
  crc = ~fold_blocks(~crc, bytes.data(), folded);
  return folded == bytes.size() ? crc : extend_zlib(crc, bytes.subspan(folded));
}

#endif

using ExtendCrc32 = std::uint32_t (*)(std::uint32_t, std::span<const std::byte>) noexcept;

ExtendCrc32 choose_crc32() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) return extend_folded;
#endif
  return extend_zlib;
}

}  // namespace

std::uint32_t crc32(std::span<const std::byte> bytes) noexcept { return crc32_extend(0, bytes); }

std::uint32_t crc32_extend(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  static const ExtendCrc32 kExtend = choose_crc32();
  return kExtend(crc, bytes);
}

std::uint32_t crc32_extend_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  return extend_zlib(crc, bytes);
}

std::uint32_t crc32_joined(std::uint32_t first, std::uint32_t second,
                           std::uint64_t second_bytes) noexcept {
  return static_cast<std::uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_bytes)));
}

}  // namespace hfshard
