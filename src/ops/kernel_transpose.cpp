// Transposes in tiles. The chain I is contiguous in the source, the chain J contiguous in the
// target; each may consist of several digits (interleaved or split dims), so a tile has a table of
// target offsets for its I positions and one of source offsets for its J positions. A tile is
// transposed in registers into a buffer in the first-level cache, then its rows go to the target as
// whole cache lines, past the caches where the map is large: the target is not read again before it
// falls out of them.

#include <algorithm>
#include <cstring>

#include "ops/kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hfshard {
namespace {

constexpr std::size_t kLine = 64;             ///< bytes of a cache line
constexpr std::size_t kSrcBytes = 2 * kLine;  ///< of one source row in a tile
constexpr std::size_t kDstBytes = 4 * kLine;  ///< of one target row in a tile
constexpr std::size_t kBlockBytes = 16;       ///< of a register
/// Targets of maps below this size stay in the cache.
constexpr std::size_t kStreamBytes = std::size_t{16} * 1024;
/// A plane of at most kNarrowBytes of each source row has no long reads that the processor
/// foresees, so its rows are asked for kAhead rows before their use.
constexpr std::size_t kNarrowBytes = 4 * kLine;
constexpr std::size_t kAhead = 64;
/// A chain this long needs no further digits.
constexpr std::size_t kChainElements = 512;

/// Digits that together are contiguous on one side, fast to slow; offsets are those of the other
/// side.
struct Chain {
  std::array<ByteDigit, DigitList::kMax> items;
  std::size_t size = 0;
  std::size_t extent = 1;

  void add(const ByteDigit& digit) noexcept {
    items[size++] = digit;
    extent *= digit.extent;
  }
};

/// Fills `out` with offsets of positions [first, first + count) of a chain; `step` picks the side.
template <typename Step>
void fill_offsets(const Chain& chain, std::size_t first, std::size_t count, Step step,
                  std::ptrdiff_t* out) noexcept {
  const ByteDigit& fast = chain.items[0];
  const std::ptrdiff_t fast_step = step(fast);
  std::size_t done = 0;
  while (done < count) {
    std::size_t rest = (first + done) / fast.extent;
    const std::size_t index = (first + done) % fast.extent;
    std::ptrdiff_t offset = static_cast<std::ptrdiff_t>(index) * fast_step;
    for (std::size_t k = 1; k < chain.size; ++k) {
      offset += static_cast<std::ptrdiff_t>(rest % chain.items[k].extent) * step(chain.items[k]);
      rest /= chain.items[k].extent;
    }
    const std::size_t run = std::min(count - done, fast.extent - index);
    for (std::size_t i = 0; i < run; ++i) {
      out[done + i] = offset;
      offset += fast_step;
    }
    done += run;
  }
}

#if defined(__SSE2__)
template <std::size_t kBytes>
__m128i unpack_low(__m128i a, __m128i b) noexcept {
  if constexpr (kBytes == 1) return _mm_unpacklo_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpacklo_epi16(a, b);
  return _mm_unpacklo_epi32(a, b);
}

template <std::size_t kBytes>
__m128i unpack_high(__m128i a, __m128i b) noexcept {
  if constexpr (kBytes == 1) return _mm_unpackhi_epi8(a, b);
  if constexpr (kBytes == 2) return _mm_unpackhi_epi16(a, b);
  return _mm_unpackhi_epi32(a, b);
}
#endif

/// Transposes one square block of 16-byte rows. `rows` holds a source pointer for each.
template <std::size_t kBytes>
void transpose_block(const std::byte* src, const std::ptrdiff_t* rows, std::byte* out,
                     std::size_t out_pitch) noexcept {
  constexpr std::size_t kSide = kBlockBytes / kBytes;
#if defined(__SSE2__)
  __m128i a[kSide];
  __m128i b[kSide];
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(&a[k], src + rows[k], kBlockBytes);
  // Each pass interleaves the first half of the rows with the second; log2(side) passes transpose.
  for (std::size_t pass = 1; pass < kSide; pass *= 2) {
    for (std::size_t k = 0; k < kSide / 2; ++k) {
      b[2 * k] = unpack_low<kBytes>(a[k], a[k + kSide / 2]);
      b[2 * k + 1] = unpack_high<kBytes>(a[k], a[k + kSide / 2]);
    }
    for (std::size_t k = 0; k < kSide; ++k) a[k] = b[k];
  }
  for (std::size_t k = 0; k < kSide; ++k) std::memcpy(out + k * out_pitch, &a[k], kBlockBytes);
#else
  for (std::size_t i = 0; i < kSide; ++i) {
    for (std::size_t k = 0; k < kSide; ++k) {
      std::memcpy(out + i * out_pitch + k * kBytes, src + rows[k] + i * kBytes, kBytes);
    }
  }
#endif
}

std::size_t misalignment(const std::byte* address, std::size_t alignment) noexcept {
  std::uintptr_t value = 0;
  std::memcpy(&value, &address, sizeof value);
  return value % alignment;
}

/// Copies a row, its whole cache lines past the caches.
void stream_row(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
#if defined(__SSE2__)
  const std::size_t head = (kLine - misalignment(to, kLine)) % kLine;
  if (bytes >= head + kLine) {
    std::memcpy(to, from, head);
    std::size_t done = head;
    for (; bytes - done >= kLine; done += kLine) {
      for (std::size_t k = done; k < done + kLine; k += kBlockBytes) {
        __m128i value;
        std::memcpy(&value, from + k, kBlockBytes);
        _mm_stream_si128(static_cast<__m128i*>(static_cast<void*>(to + k)), value);
      }
    }
    std::memcpy(to + done, from + done, bytes - done);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

/// Asks for the cache lines of `bytes` bytes.
void prefetch(const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t k = 0; k < bytes; k += kLine) __builtin_prefetch(from + k, 0, 2);
  __builtin_prefetch(from + bytes - 1, 0, 2);
}

/// All tiles of one I x J plane.
template <std::size_t kBytes>
class Plane {
 public:
  Plane(const Chain& i_chain, const Chain& j_chain, bool stream) noexcept
      : i_chain_(i_chain), j_chain_(j_chain), stream_(stream) {}

  void move(const std::byte* src, std::byte* dst) noexcept {
    // Tiles end at cache lines of the target, so that lines are written whole.
    const std::size_t skew = misalignment(dst, kLine);
    const std::size_t first = skew % kBytes == 0 ? (kDstBytes - skew) / kBytes : kTileJ;
    const bool narrow = i_chain_.extent * kBytes <= kNarrowBytes;
    for (std::size_t j = 0; j < j_chain_.extent;) {
      const std::size_t columns = std::min(j == 0 ? first : kTileJ, j_chain_.extent - j);
      const std::size_t known = std::min(columns + kAhead, j_chain_.extent - j);
      fill_offsets(
          j_chain_, j, known, [](const ByteDigit& digit) { return digit.src_step; },
          src_rows_.data());
      if (narrow) {
        std::fill(&src_rows_[known], &src_rows_[columns + kAhead], src_rows_[known - 1]);
        if (j == 0) ask_for(src, 0, std::min(known, kAhead));
      }
      for (std::size_t i = 0; i < i_chain_.extent; i += kTileI) {
        const std::size_t rows = std::min(kTileI, i_chain_.extent - i);
        transpose_tile(src + i * kBytes, rows, columns, narrow && i == 0);
        write_tile(dst + j * kBytes, i, rows, columns);
      }
      j += columns;
    }
  }

 private:
  static constexpr std::size_t kSide = kBlockBytes / kBytes;
  static constexpr std::size_t kTileI = kSrcBytes / kBytes;
  static constexpr std::size_t kTileJ = kDstBytes / kBytes;

  void ask_for(const std::byte* src, std::size_t first, std::size_t count) noexcept {
    for (std::size_t k = first; k < first + count; ++k) {
      prefetch(src + src_rows_[k], i_chain_.extent * kBytes);
    }
  }

  void transpose_tile(const std::byte* src, std::size_t rows, std::size_t columns,
                      bool ahead) noexcept {
    if (rows < kSide || columns < kSide) return copy_scalar(src, rows, columns);
    for (std::size_t j = 0;; j = std::min(j + kSide, columns - kSide)) {
      if (ahead) ask_for(src, j + kAhead, kSide);
      // The last block of an uneven tile overlaps the one before.
      for (std::size_t i = 0;; i = std::min(i + kSide, rows - kSide)) {
        transpose_block<kBytes>(src + i * kBytes, &src_rows_[j],
                                &buffer_[i * kDstBytes + j * kBytes], kDstBytes);
        if (i + kSide == rows) break;
      }
      if (j + kSide == columns) break;
    }
  }

  void copy_scalar(const std::byte* src, std::size_t rows, std::size_t columns) noexcept {
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < columns; ++j) {
        std::memcpy(&buffer_[i * kDstBytes + j * kBytes], src + src_rows_[j] + i * kBytes, kBytes);
      }
    }
  }

  void write_tile(std::byte* dst, std::size_t first, std::size_t rows,
                  std::size_t columns) noexcept {
    fill_offsets(
        i_chain_, first, rows, [](const ByteDigit& digit) { return digit.dst_step; },
        dst_rows_.data());
    for (std::size_t i = 0; i < rows; ++i) {
      std::byte* to = dst + dst_rows_[i];
      const std::byte* from = &buffer_[i * kDstBytes];
      if (stream_) {
        stream_row(to, from, columns * kBytes);
      } else {
        std::memcpy(to, from, columns * kBytes);
      }
    }
  }

  const Chain& i_chain_;
  const Chain& j_chain_;
  bool stream_;
  std::array<std::ptrdiff_t, kTileJ + kAhead> src_rows_;
  std::array<std::ptrdiff_t, kTileI> dst_rows_;
  alignas(kLine) std::array<std::byte, kTileI * kDstBytes> buffer_;
};

/// Moves a digit that continues `chain` on one side from `digits`; false if there is none.
template <typename Step>
bool extend(Chain& chain, std::size_t element_bytes, ByteDigits& digits, Step step) noexcept {
  const auto wanted = static_cast<std::ptrdiff_t>(chain.extent * element_bytes);
  for (std::size_t k = 0; k < digits.size; ++k) {
    if (step(digits.items[k]) == wanted) {
      chain.add(digits.take(k));
      return true;
    }
  }
  return false;
}

template <std::size_t kBytes>
void move_planes(const Chain& i_chain, const Chain& j_chain, const ByteDigits& outer,
                 const std::byte* src, std::byte* dst) {
  std::size_t bytes = i_chain.extent * j_chain.extent * kBytes;
  for (std::size_t k = 0; k < outer.size; ++k) bytes *= outer.items[k].extent;
  const bool stream = bytes >= kStreamBytes;
  Plane<kBytes> plane(i_chain, j_chain, stream);
  for_each_offset(outer, src, dst,
                  [&](const std::byte* from, std::byte* to) { plane.move(from, to); });
#if defined(__SSE2__)
  if (stream) _mm_sfence();
#endif
}

}  // namespace

bool copy_transposed(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                     std::byte* dst) {
  ByteDigits outer = digits;
  Chain i_chain;
  Chain j_chain;
  const auto src_step = [](const ByteDigit& digit) { return digit.src_step; };
  const auto dst_step = [](const ByteDigit& digit) { return digit.dst_step; };
  if (!extend(i_chain, element_bytes, outer, src_step)) return false;
  if (!extend(j_chain, element_bytes, outer, dst_step)) return false;
  // A digit that fits both chains goes to the shorter one.
  const auto grow_i = [&] {
    return i_chain.extent < kChainElements && extend(i_chain, element_bytes, outer, src_step);
  };
  const auto grow_j = [&] {
    return j_chain.extent < kChainElements && extend(j_chain, element_bytes, outer, dst_step);
  };
  while (i_chain.extent < j_chain.extent ? grow_i() || grow_j() : grow_j() || grow_i()) {
  }
  switch (element_bytes) {
    case 1:
      move_planes<1>(i_chain, j_chain, outer, src, dst);
      break;
    case 2:
      move_planes<2>(i_chain, j_chain, outer, src, dst);
      break;
    default:
      move_planes<4>(i_chain, j_chain, outer, src, dst);
      break;
  }
  return true;
}

}  // namespace hfshard
