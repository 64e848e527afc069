// Transposes in tiles. The chain I is contiguous in the source, or takes every second, third or
// fourth element of it. The chain J is contiguous in the target. Each can have several digits
// (interleaved or split dims). So a tile has a table of target offsets for its I positions, and one
// of source offsets for its J positions.
//
// 1. Copies the tile's part of its source rows side by side to the stage. Prefetches the part of a
//    later tile.
// 2. Transposes blocks of the stage in registers into the buffer.
// 3. Writes the rows of the buffer to the target as whole cache lines. Large targets bypass the
//    caches, since they would be evicted before they are read again. A row's share of its last line
//    waits for the next tile.

#include <algorithm>
#include <cstring>

#include "ops/kernels.h"
#include "ops/pick.h"
#include "ops/simd.h"
#include "ops/transpose_block.h"

namespace hfshard {
namespace {

constexpr std::size_t kLine = kLineBytes;
constexpr std::size_t kSrcBytes = 2 * kLine;  ///< of one source row in a tile
constexpr std::size_t kDstBytes = 4 * kLine;  ///< of one target row in a tile
constexpr std::size_t kMaxTileRows = 64;      ///< keeps the buffer in the first-level cache
/// A row of the buffer has room for the line that the previous tile began.
constexpr std::size_t kPitch = kLine + kDstBytes;
/// Tiles of I that advance along J together, so that few lines wait.
constexpr std::size_t kStripTiles = 16;
/// Targets below this size stay in the cache.
constexpr std::size_t kStreamBytes = std::size_t{64} * 1024;
/// Shorter rows go through the caches too. This measures faster, since most have their own page.
constexpr std::size_t kStreamRowBytes = 8 * kLine;
/// In a plane with at most kNarrowBytes of each source row, reads are too short for the processor
/// to predict. So rows are prefetched kAhead rows before their use.
constexpr std::size_t kNarrowBytes = 4 * kLine;
constexpr std::size_t kAhead = 64;
/// The second-level cache for __builtin_prefetch. Rows whose distance is a power of two don't fit
/// in the first.
constexpr int kSecondLevel = 2;
/// A chain of this length doesn't need more digits.
constexpr std::size_t kChainElements = 512;

/// Digits that together are contiguous on one side, fast to slow. Offsets are those of the other
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

/// Fills `out` with offsets of positions [first, first + count) of a chain. `step` selects the
/// side.
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

std::size_t misalignment(const std::byte* address) noexcept {
  std::uintptr_t value = 0;
  std::memcpy(&value, &address, sizeof value);
  return value % kLine;
}

/// Prefetches the cache lines of `bytes` bytes that are needed soon.
void prefetch(const std::byte* from, std::size_t bytes) noexcept {
  for (std::size_t k = 0; k < bytes; k += kLine) __builtin_prefetch(from + k, 0, kSecondLevel);
  __builtin_prefetch(from + bytes - 1, 0, kSecondLevel);
}

/// The two sides of a plane. `stride` is the source step of I in elements.
struct Sides {
  Chain i;
  Chain j;
  std::size_t stride = 1;
  bool stream = false;
};

/// Moves all tiles of one I x J plane.
template <Simd kLevel, std::size_t kBytes>
class Plane {
 public:
  explicit Plane(const Sides& sides) noexcept : sides_(sides) {
    for (std::size_t k = 0; k < kTileI; ++k) {
      out_rows_[k] = static_cast<std::ptrdiff_t>(k * kPitch);
    }
  }

  void move(const std::byte* src, std::byte* dst) noexcept {
    for (std::size_t i = 0; i < sides_.i.extent; i += kStrip) {
      move_strip(src, dst, i, std::min(kStrip, sides_.i.extent - i));
    }
  }

 private:
  static constexpr std::size_t kTileI = std::min(kSrcBytes / kBytes, kMaxTileRows);
  static constexpr std::size_t kTileJ = kDstBytes / kBytes;
  static constexpr std::size_t kStageBytes = kTileI * kBytes;  // of one source row in a tile
  static constexpr std::size_t kStrip = kStripTiles * kTileI;
  static constexpr std::size_t kSide = kLaneBytes / kBytes;

  std::size_t src_bytes(std::size_t rows) const noexcept {
    return ((rows - 1) * sides_.stride + 1) * kBytes;
  }

  void move_strip(const std::byte* src, std::byte* dst, std::size_t begin,
                  std::size_t length) noexcept {
    // If the target's rows have equal alignment, tiles end at its cache lines.
    const std::size_t skew = misalignment(dst);
    const std::size_t first = skew % kBytes == 0 ? (kDstBytes - skew) / kBytes : kTileJ;
    const std::size_t ahead = src_bytes(length) <= kNarrowBytes ? src_bytes(length) : 0;
    for (std::size_t j = 0; j < sides_.j.extent;) {
      const std::size_t columns = std::min(j == 0 ? first : kTileJ, sides_.j.extent - j);
      const std::size_t known = std::min(columns + kAhead, sides_.j.extent - j);
      fill_offsets(
          sides_.j, j, known, [](const ByteDigit& digit) { return digit.src_step; },
          src_rows_.data());
      const std::byte* from = src + begin * sides_.stride * kBytes;
      std::fill(&src_rows_[known], &src_rows_[columns + kAhead], src_rows_[known - 1]);
      for (std::size_t k = 0; ahead != 0 && j == 0 && k < std::min(known, kAhead); ++k) {
        prefetch(from + src_rows_[k], ahead);
      }
      for (std::size_t i = 0; i < length; i += kTileI) {
        const std::size_t rows = std::min(kTileI, length - i);
        place_rows(dst, begin + i, rows, j);
        transpose_tile(from + i * sides_.stride * kBytes, rows, columns, i == 0 ? ahead : 0);
        write_tile(dst, i, rows, j, columns);
      }
      j += columns;
    }
  }

  /// Finds the start of each row of a tile. In the buffer, a row has the same place in its line as
  /// in the target.
  void place_rows(const std::byte* dst, std::size_t first, std::size_t rows,
                  std::size_t j) noexcept {
    fill_offsets(
        sides_.i, first, rows, [](const ByteDigit& digit) { return digit.dst_step; },
        dst_rows_.data());
    if (!sides_.stream) return;
    for (std::size_t k = 0; k < rows; ++k) {
      const std::size_t lead = misalignment(dst + dst_rows_[k] + j * kBytes);
      out_rows_[k] = static_cast<std::ptrdiff_t>(k * kPitch + lead);
    }
  }

  /// Transposes whole blocks. The part beyond the tile goes to unused parts of the buffer.
  void transpose_tile(const std::byte* src, std::size_t rows, std::size_t columns,
                      std::size_t ahead) noexcept {
    const bool few = ahead != 0 && sides_.j.extent <= kAhead;
    for (std::size_t j = 0; j < columns; ++j) {
      if (ahead != 0) prefetch(src + src_rows_[j + kAhead], ahead);
      const std::byte* from = src + src_rows_[j];
      stage_row(from, rows, &stage_[j * kStageBytes]);
      // The processor can't predict so many rows. Prefetches the tile after the next one, since a
      // request for the next one would come too late. If all rows were prefetched at once, the map
      // is small, and the bytes after them aren't needed.
      const std::size_t bytes = few ? 0 : kStageBytes * sides_.stride;
      for (std::size_t k = 0; k < bytes; k += kLine) {
        __builtin_prefetch(from + 2 * bytes + k, 0, kSecondLevel);
      }
    }
    for (std::size_t j = 0; j < columns; j += block_rows<kLevel, kBytes>()) {
      for (std::size_t i = 0; i < rows; i += kSide) {
        transpose_block<kLevel, kBytes, kStageBytes>(&stage_[j * kStageBytes + i * kBytes],
                                                     &buffer_[j * kBytes], &out_rows_[i]);
      }
    }
  }

  /// Copies a tile's part of a source row to the stage. Rows whose distance is a power of two would
  /// evict each other from the cache during the transpose.
  void stage_row(const std::byte* from, std::size_t rows, std::byte* to) const noexcept {
    if (sides_.stride != 1) return pick<kBytes>(from, to, rows, sides_.stride);
    rows == kTileI ? std::memcpy(to, from, kStageBytes) : std::memcpy(to, from, rows * kBytes);
  }

  void write_tile(std::byte* dst, std::size_t waiting, std::size_t rows, std::size_t j,
                  std::size_t columns) noexcept {
    const bool last = j + columns == sides_.j.extent;
    for (std::size_t k = 0; k < rows; ++k) {
      std::byte* to = dst + dst_rows_[k] + j * kBytes;
      if (sides_.stream) {
        const auto lead = static_cast<std::size_t>(out_rows_[k]) - k * kPitch;
        stream_row(to, &buffer_[k * kPitch], {lead, columns * kBytes, j == 0, last},
                   &waiting_[(waiting + k) * kLine]);
      } else {
        std::memcpy(to, &buffer_[k * kPitch], columns * kBytes);
      }
    }
  }

  /// `bytes` of a row that begin at byte `lead` of a line.
  struct Part {
    std::size_t lead;
    std::size_t bytes;
    bool first;
    bool last;
  };

  /// Writes the whole lines of a row. `row` begins where the line does. `line` keeps the row's
  /// share of its last line from one tile to the next.
  static void stream_row(std::byte* to, std::byte* row, const Part& part,
                         std::byte* line) noexcept {
    const std::size_t end = part.lead + part.bytes;
    std::byte* const begin = to - static_cast<std::ptrdiff_t>(part.lead);
    std::size_t done = 0;
    if (part.lead != 0 && part.first) {
      done = std::min(kLine, end);
      std::memcpy(to, row + part.lead, done - part.lead);
    } else if (part.lead != 0) {
      std::memcpy(row, line, part.lead);
    }
    for (; end - done >= kLine; done += kLine) stream_line<kLevel>(begin + done, row + done);
    if (done == end) return;
    if (part.last) {
      std::memcpy(begin + done, row + done, end - done);
    } else {
      std::memcpy(line, row + done, kLine);
    }
  }

  const Sides& sides_;
  std::array<std::ptrdiff_t, kTileJ + kAhead> src_rows_;
  std::array<std::ptrdiff_t, kTileI> dst_rows_;
  std::array<std::ptrdiff_t, kTileI> out_rows_;
  alignas(kLine) std::array<std::byte, kTileJ * kStageBytes> stage_;
  alignas(kLine) std::array<std::byte, kTileI * kPitch> buffer_;
  alignas(kLine) std::array<std::byte, kStrip * kLine> waiting_;
};

/// Moves the digit that continues the chain from `digits` to it. Its step is `unit_bytes` times the
/// chain's extent. Returns false if no digit does.
template <typename Step>
bool extend(Chain& chain, std::size_t unit_bytes, ByteDigits& digits, Step step) noexcept {
  const auto wanted = static_cast<std::ptrdiff_t>(chain.extent * unit_bytes);
  for (std::size_t k = 0; k < digits.size; ++k) {
    if (step(digits.items[k]) == wanted) {
      chain.add(digits.take(k));
      return true;
    }
  }
  return false;
}

/// Takes the two chains out of `digits`. Returns false if they don't exist.
bool find_sides(std::size_t element_bytes, ByteDigits& digits, Sides& sides) noexcept {
  const auto src_step = [](const ByteDigit& digit) { return digit.src_step; };
  const auto dst_step = [](const ByteDigit& digit) { return digit.dst_step; };
  // J first, so that a digit that is contiguous in the target doesn't become a strided I.
  if (!extend(sides.j, element_bytes, digits, dst_step)) return false;
  while (!extend(sides.i, element_bytes * sides.stride, digits, src_step)) {
    if (++sides.stride > kMaxStride) return false;
  }
  // The shorter chain gets a digit that fits both.
  const auto grow_i = [&] {
    return sides.i.extent < kChainElements &&
           extend(sides.i, element_bytes * sides.stride, digits, src_step);
  };
  const auto grow_j = [&] {
    return sides.j.extent < kChainElements && extend(sides.j, element_bytes, digits, dst_step);
  };
  while (sides.i.extent < sides.j.extent ? grow_i() || grow_j() : grow_j() || grow_i()) {
  }
  return true;
}

/// Returns the bytes from the first to the last that a map writes in the target.
std::size_t target_reach(const ByteDigits& digits) noexcept {
  std::size_t reach = 0;
  for (std::size_t k = 0; k < digits.size; ++k) {
    reach += (digits.items[k].extent - 1) * static_cast<std::size_t>(digits.items[k].dst_step);
  }
  return reach;
}

template <Simd kLevel, std::size_t kBytes>
void move_planes(const Sides& sides, const ByteDigits& outer, const std::byte* src,
                 std::byte* dst) {
  Plane<kLevel, kBytes> plane(sides);
  for_each_offset(outer, src, dst,
                  [&](const std::byte* from, std::byte* to) { plane.move(from, to); });
}

}  // namespace

bool copy_transposed(const ByteDigits& digits, std::size_t element_bytes, const std::byte* src,
                     std::byte* dst, Simd simd) {
  ByteDigits outer = digits;
  Sides sides;
  if (!find_sides(element_bytes, outer, sides)) return false;
  sides.stream = simd != Simd::portable && target_reach(digits) >= kStreamBytes &&
                 sides.j.extent * element_bytes >= kStreamRowBytes;
  run_as(simd, [&](auto level) {
    switch (element_bytes) {
      case 1:
        return move_planes<level(), 1>(sides, outer, src, dst);
      case 2:
        return move_planes<level(), 2>(sides, outer, src, dst);
      case 4:
        return move_planes<level(), 4>(sides, outer, src, dst);
      default:
        return move_planes<level(), 8>(sides, outer, src, dst);
    }
  });
  if (sides.stream) finish_streams();
  return true;
}

}  // namespace hfshard
