#include "base/crc32c.h"

#include <array>

#include "base/coding.h"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace hfshard {
namespace {

// A CRC register holds a polynomial over GF(2) with bit 31 the constant term (reflected form).
constexpr std::uint32_t kPolynomial = 0x82F63B78U;

// a * b modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = 0x80000000U; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b & 1U) != 0 ? (b >> 1) ^ kPolynomial : b >> 1;
  }
  return product;
}

// x^(8 * bytes) modulo the polynomial: what `bytes` zero bytes multiply a register by.
constexpr std::uint32_t power_of_bytes(std::uint64_t bytes) noexcept {
  std::uint32_t result = 0x80000000U;  // 1
  std::uint32_t square = 0x00800000U;  // x^8
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1U) != 0) result = multiply(result, square);
    square = multiply(square, square);
  }
  return result;
}

// Entry [k][b] is the register that byte b becomes after k further zero bytes.
using Slices = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Slices make_slices() noexcept {
  Slices slices{};
  for (std::uint32_t b = 0; b < 256; ++b) {
    std::uint32_t value = b;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1U) != 0 ? (value >> 1) ^ kPolynomial : value >> 1;
    }
    slices[0][b] = value;
  }
  for (std::size_t k = 1; k < slices.size(); ++k) {
    for (std::size_t b = 0; b < 256; ++b) {
      const std::uint32_t before = slices[k - 1][b];
      slices[k][b] = (before >> 8) ^ slices[0][before & 0xffU];
    }
  }
  return slices;
}

constexpr Slices kSlices = make_slices();

std::uint32_t extend_table(std::uint32_t state, const std::byte* at, std::size_t size) noexcept {
  for (; size >= 8; at += 8, size -= 8) {
    const std::uint64_t word = load_le<std::uint64_t>(at) ^ state;
    state = 0;
    for (std::size_t i = 0; i < 8; ++i) state ^= kSlices[7 - i][(word >> (8 * i)) & 0xffU];
  }
  for (; size > 0; ++at, --size) {
    state = (state >> 8) ^ kSlices[0][(state ^ std::to_integer<std::uint32_t>(*at)) & 0xffU];
  }
  return state;
}

#if defined(__x86_64__)

// Multiplies a register by x^(8 * bytes), one table per register byte.
using Shift = std::array<std::array<std::uint32_t, 256>, 4>;

constexpr Shift make_shift(std::uint64_t bytes) noexcept {
  const std::uint32_t power = power_of_bytes(bytes);
  Shift shift{};
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::uint32_t b = 0; b < 256; ++b) shift[k][b] = multiply(b << (8 * k), power);
  }
  return shift;
}

// Stream lengths: long ones amortise the joining, short ones serve what is left.
constexpr std::size_t kLongBytes = 4096;
constexpr std::size_t kShortBytes = 256;
constexpr Shift kLongShift = make_shift(kLongBytes);
constexpr Shift kShortShift = make_shift(kShortBytes);

std::uint64_t apply(const Shift& shift, std::uint64_t state) noexcept {
  return shift[0][state & 0xffU] ^ shift[1][(state >> 8) & 0xffU] ^
         shift[2][(state >> 16) & 0xffU] ^ shift[3][(state >> 24) & 0xffU];
}

// The crc32 instruction has a latency of three cycles and issues every cycle. So three independent
// streams of `stream_bytes` run side by side, and `shift` joins them.
__attribute__((target("sse4.2"))) std::uint64_t extend_triples(std::uint64_t state,
                                                               const std::byte*& at,
                                                               std::size_t& size,
                                                               std::size_t stream_bytes,
                                                               const Shift& shift) noexcept {
  for (; size >= 3 * stream_bytes; at += 3 * stream_bytes, size -= 3 * stream_bytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (std::size_t i = 0; i < stream_bytes; i += 8) {
      state = _mm_crc32_u64(state, load_le<std::uint64_t>(at + i));
      second = _mm_crc32_u64(second, load_le<std::uint64_t>(at + stream_bytes + i));
      third = _mm_crc32_u64(third, load_le<std::uint64_t>(at + 2 * stream_bytes + i));
    }
    state = apply(shift, apply(shift, state) ^ second) ^ third;
  }
  return state;
}

__attribute__((target("sse4.2"))) std::uint32_t extend_sse42(std::uint32_t initial,
                                                             const std::byte* at,
                                                             std::size_t size) noexcept {
  std::uint64_t state = extend_triples(initial, at, size, kLongBytes, kLongShift);
  state = extend_triples(state, at, size, kShortBytes, kShortShift);
  for (; size >= 8; at += 8, size -= 8) state = _mm_crc32_u64(state, load_le<std::uint64_t>(at));
  auto narrow = static_cast<std::uint32_t>(state);
  for (; size > 0; ++at, --size) narrow = _mm_crc32_u8(narrow, std::to_integer<unsigned char>(*at));
  return narrow;
}

#endif

using Extend = std::uint32_t (*)(std::uint32_t, const std::byte*, std::size_t) noexcept;

Extend choose() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return extend_sse42;
#endif
  return extend_table;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) noexcept { return crc32c_extend(0, bytes); }

std::uint32_t crc32c_extend(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  static const Extend kExtend = choose();
  return ~kExtend(~crc, bytes.data(), bytes.size());
}

std::uint32_t crc32c_extend_portable(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  return ~extend_table(~crc, bytes.data(), bytes.size());
}

}  // namespace hfshard
