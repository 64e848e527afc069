// Transposes in tiles. The chain I is contiguous in the source, or takes every second, third or
// fourth element of it; the chain J is contiguous in the target. Each may consist of several digits
// (interleaved or split dims), so a tile has a table of target offsets for its I positions and one
// of source offsets for its J positions.
//
// 1. What a tile has of its source rows is copied side by side to the stage, and what a later tile
//    has of them is asked for.
// 2. Blocks of the stage are transposed in registers into the buffer.
// 3. The rows of the buffer go to the target as whole cache lines, past the caches where the target
//    is large: it is not read again before it falls out of them. What a row has of its last line
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
/// A row of the buffer has room for the line that was begun by the tile before.
constexpr std::size_t kPitch = kLine + kDstBytes;
/// Tiles of I that go along J together, so that few lines wait.
constexpr std::size_t kStripTiles = 16;
/// Targets below this size stay in the cache.
constexpr std::size_t kStreamBytes = std::size_t{64} * 1024;
/// Shorter rows go through the caches too, which measures faster: most are in a page of their own.
constexpr std::size_t kStreamRowBytes = 8 * kLine;
/// A plane of at most kNarrowBytes of each source row has no long reads that the processor
/// foresees, so its rows are asked for kAhead rows before their use.
constexpr std::size_t kNarrowBytes = 4 * kLine;
constexpr std::size_t kAhead = 64;
/// The second-level cache, as __builtin_prefetch numbers them: rows whose distance is a power of
/// two have no room in the first.
constexpr int kSecondLevel = 2;
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

std::size_t misalignment(const std::byte* address) noexcept {
  std::uintptr_t value = 0;
  std::memcpy(&value, &address, sizeof value);
  return value % kLine;
}

/// Asks for the cache lines of `bytes` bytes that are needed soon.
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

/// All tiles of one I x J plane.
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
    // Tiles end at cache lines of the target where its rows are aligned alike.
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

  /// Finds where the rows of a tile begin, and lets each begin in the buffer as it does in its
  /// line.
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

  /// In whole blocks; what they have beyond the tile goes to parts of the buffer that are not used.
  void transpose_tile(const std::byte* src, std::size_t rows, std::size_t columns,
                      std::size_t ahead) noexcept {
    const bool few = ahead != 0 && sides_.j.extent <= kAhead;
    for (std::size_t j = 0; j < columns; ++j) {
      if (ahead != 0) prefetch(src + src_rows_[j + kAhead], ahead);
      const std::byte* from = src + src_rows_[j];
      stage_row(from, rows, &stage_[j * kStageBytes]);
      // So many rows are too many for the processor to foresee. The tile after the next: the next
      // one is read too soon for a request to help. Rows that were all asked for at once are those
      // of a small map, and what comes next to them is not asked for.
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

  /// Copies what a tile has of a source row to the stage: rows whose distance is a power of two
  /// would drive each other out of the cache while they are transposed.
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

  /// `bytes` of a row, which begin `lead` bytes into a line.
  struct Part {
    std::size_t lead;
    std::size_t bytes;
    bool first;
    bool last;
  };

  /// Writes the whole lines of a row; `row` begins where the line does. `line` is what the row has
  /// of its last line, from one tile to the next.
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

/// Moves the digit whose step is `unit` times what the chain has from `digits`; false if there is
/// none.
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

/// Takes the two chains out of `digits`; false if there are none.
bool find_sides(std::size_t element_bytes, ByteDigits& digits, Sides& sides) noexcept {
  const auto src_step = [](const ByteDigit& digit) { return digit.src_step; };
  const auto dst_step = [](const ByteDigit& digit) { return digit.dst_step; };
  // J first: a digit that is contiguous in the target is no strided I.
  if (!extend(sides.j, element_bytes, digits, dst_step)) return false;
  while (!extend(sides.i, element_bytes * sides.stride, digits, src_step)) {
    if (++sides.stride > kMaxStride) return false;
  }
  // A digit that fits both chains goes to the shorter one.
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

/// Bytes from the first to the last that a map touches in the target.
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
