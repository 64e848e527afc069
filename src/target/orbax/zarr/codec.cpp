#include "target/orbax/zarr/codec.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"
#include "base/zstd.h"
#include "ops/index_map.h"
#include "ops/move.h"

#include "hfshard/error.h"

namespace hfshard::target::orbax::zarr {
namespace {

constexpr std::size_t kCrcBytes = 4;
constexpr std::size_t kIndexEntryBytes = 16;

void put_crc(std::span<const std::byte> bytes, std::byte* to) { store_le(to, crc32c(bytes)); }

// Copies one packed inner chunk to its place in the packed outer chunk, run by run along the last
// axis.
void scatter(const Shape& chunk, const Shape& inner, const Shape& cell, std::size_t element_bytes,
             std::span<const std::byte> from, std::span<std::byte> out) {
  const std::size_t rank = chunk.rank();
  if (rank == 0) {
    std::memcpy(out.data(), from.data(), element_bytes);
    return;
  }
  const Shape strides = chunk.strides();
  const std::size_t run = inner[rank - 1] * element_bytes;
  Shape at;
  for (std::size_t axis = 0; axis < rank; ++axis) at.push_back(0);
  std::size_t read = 0;
  while (true) {
    std::uint64_t element = 0;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      element += (cell[axis] * inner[axis] + at[axis]) * strides[axis];
    }
    std::memcpy(out.data() + element * element_bytes, from.data() + read, run);
    read += run;
    std::size_t axis = rank - 1;
    while (axis > 0 && ++at[axis - 1] == inner[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

// Coordinates of inner chunk `index` in C order.
Shape cell_at(const Array& array, std::uint64_t index) {
  Shape out = array.chunk;
  for (std::size_t axis = array.chunk.rank(); axis-- > 0;) {
    const std::uint64_t along = array.chunk[axis] / array.inner[axis];
    out[axis] = index % along;
    index /= along;
  }
  return out;
}

// Checks the checksum behind a cell and takes it off.
std::span<const std::byte> without_crc(std::span<const std::byte> stored) {
  if (stored.size() < kCrcBytes) {
    throw Error(ErrorCode::corrupt, fmt::format("{} bytes, too few for a checksum", stored.size()));
  }
  const auto cell = stored.first(stored.size() - kCrcBytes);
  check_cell(cell, stored.last(kCrcBytes));
  return cell;
}

// A cell of `size` bytes behind its checksum: in `stored` itself or, decompressed, in `out`; where
// that is empty, in the part of `scratch` that the decoder leaves.
std::span<const std::byte> open_cell(const Array& array, std::span<const std::byte> stored,
                                     std::uint64_t size, std::span<std::byte> out,
                                     std::span<std::byte> scratch) {
  if (array.zstd) {
    const auto at = out.empty() ? scratch.subspan(zstd_scratch_bytes(), size) : out;
    decode_zstd(stored, at, scratch.first(zstd_scratch_bytes()));
    return at;
  }
  if (stored.size() != size) {
    throw Error(ErrorCode::corrupt,
                fmt::format("{} bytes where {} are wanted", stored.size(), size));
  }
  return stored;
}

// Decodes a chunk stored in `array.order` into `out`, row-major.
void undo_transpose(const Array& array, std::span<const std::byte> stored,
                    std::span<std::byte> out) {
  const Shape strides = array.chunk.strides();
  IndexMap map;
  std::uint64_t run = 1;
  for (std::size_t k = array.order.size(); k-- > 0;) {
    const std::size_t axis = array.order[k];
    map.digits.push_back({array.chunk[axis], static_cast<std::int64_t>(run),
                          static_cast<std::int64_t>(strides[axis])});
    run *= array.chunk[axis];
  }
  move_elements(normalize(map), size_bits(array.dtype) / 8, stored, out);
}

// True if no element of an inner chunk lies in the array.
bool is_outside(const Array& array, const Shape& chunk, const Shape& cell) {
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    const std::uint64_t begin = chunk[axis] * array.chunk[axis] + cell[axis] * array.inner[axis];
    if (begin >= array.shape[axis]) return true;
  }
  return false;
}

// Where the index says that a cell is; nothing if it is not there and need not be.
std::optional<ByteRange> cell_range(const Array& array, const ChunkForm& form,
                                    std::span<const std::byte> stored, std::uint64_t cell,
                                    bool may_be_absent) {
  const std::uint64_t data_bytes = stored.size() - form.tail_bytes;
  const std::uint64_t at = data_bytes + cell * kIndexEntryBytes;
  const auto offset = load_le<std::uint64_t>(stored.data() + at);
  const auto length = load_le<std::uint64_t>(stored.data() + at + 8);
  const std::uint64_t wanted = form.cell_bytes + form.cell_suffix_bytes;
  const bool absent = offset == UINT64_MAX && length == UINT64_MAX;
  if (absent && may_be_absent) return std::nullopt;
  if (in_range(offset, length, data_bytes) && (array.zstd || length == wanted)) {
    return ByteRange{offset, offset + length};
  }
  throw Error(
      ErrorCode::corrupt,
      absent ? fmt::format("inner chunk {} of {} is missing", cell, form.cells)
             : fmt::format("inner chunk {} has offset {} and length {}; {} within {} bytes "
                           "is wanted",
                           cell, offset, length,
                           array.zstd ? "a range" : fmt::format("length {}", wanted), data_bytes))
      .at({at, at + kIndexEntryBytes}, stored.size());
}

void check_index(const ChunkForm& form, std::span<const std::byte> stored) {
  if (stored.size() < form.tail_bytes) {
    throw Error(ErrorCode::corrupt, fmt::format("{} bytes, too few for an index of {}",
                                                stored.size(), form.tail_bytes));
  }
  const auto index = stored.last(form.tail_bytes);
  const auto entries = index.first(index.size() - kCrcBytes);
  if (crc32c(entries) == load_le<std::uint32_t>(entries.data() + entries.size())) return;
  throw Error(ErrorCode::corrupt, "checksum mismatch in the index of inner chunks")
      .at({stored.size() - index.size(), stored.size()}, stored.size());
}

void open_shard(const Array& array, const Shape& chunk, std::span<const std::byte> stored,
                std::span<std::byte> out, std::span<std::byte> scratch) {
  const ChunkForm form = array.form();
  check_index(form, stored);
  const bool direct = form.cells == 1;
  const auto place = direct ? out : std::span<std::byte>();
  if (is_outside(array, chunk, cell_at(array, form.cells - 1))) {
    std::ranges::fill(out, std::byte{0});
  }
  for (std::uint64_t index = 0; index < form.cells; ++index) {
    const Shape cell = cell_at(array, index);
    const auto range = cell_range(array, form, stored, index, is_outside(array, chunk, cell));
    if (!range) continue;
    try {
      auto bytes = stored.subspan(range->begin, range->end - range->begin);
      if (array.crc32c) bytes = without_crc(bytes);
      bytes = open_cell(array, bytes, form.cell_bytes, place, scratch);
      if (direct && array.zstd) return;
      scatter(array.chunk, array.inner, cell, size_bits(array.dtype) / 8, bytes, out);
    } catch (Error& error) {  // only here is the range known
      throw error.at(*range, stored.size());
    }
  }
}

}  // namespace

std::uint64_t seal_scratch_bytes(const Array& array) {
  if (!array.zstd) return 0;
  const std::uint64_t cell = array.form().cell_bytes;
  return zstd_most_bytes(cell) + zstd_encoder_bytes(*array.zstd, cell);
}

std::uint64_t seal_chunk(const ChunkForm& form, std::span<std::byte> stored,
                         std::span<std::byte> scratch) {
  HFSHARD_CHECK(stored.size() == form.stored_bytes());
  HFSHARD_CHECK(form.cell_suffix_bytes == 0 || form.cell_suffix_bytes == kCrcBytes);
  HFSHARD_CHECK(form.tail_bytes == 0 ||
                form.tail_bytes == kIndexEntryBytes * form.cells + kCrcBytes);
  // Frames move to the front, never past the cell that they are made of. The index is written where
  // it is without frames, and moves behind the last one.
  const std::span<std::byte> index = stored.last(form.tail_bytes);
  std::uint64_t length = 0;
  for (std::uint64_t cell = 0; cell < form.cells; ++cell) {
    const auto bytes = stored.subspan(cell * form.cell_step_bytes(), form.cell_bytes);
    std::uint64_t size = form.cell_bytes;
    if (form.zstd_level != 0) {
      const auto frame = scratch.first(form.cell_bytes + form.cell_growth_bytes);
      size = encode_zstd(bytes, form.zstd_level, frame, scratch.subspan(frame.size()));
      std::memcpy(stored.data() + length, frame.data(), size);
    }
    std::byte* end = stored.data() + length + size;
    if (form.cell_suffix_bytes != 0) put_crc({end - size, size}, end);
    size += form.cell_suffix_bytes;
    if (!index.empty()) {
      store_le(index.data() + cell * kIndexEntryBytes, length);
      store_le(index.data() + cell * kIndexEntryBytes + 8, size);
    }
    length += size;
  }
  if (index.empty()) return length;
  put_crc(index.first(index.size() - kCrcBytes), index.data() + index.size() - kCrcBytes);
  std::memmove(stored.data() + length, index.data(), index.size());
  return length + index.size();
}

void check_cell(std::span<const std::byte> cell, std::span<const std::byte> suffix) {
  HFSHARD_CHECK(suffix.size() == kCrcBytes);
  const auto stored = load_le<std::uint32_t>(suffix.data());
  const std::uint32_t computed = crc32c(cell);
  if (stored == computed) return;
  throw Error(
      ErrorCode::corrupt,
      fmt::format("checksum mismatch: {:08x} is stored, {:08x} is computed", stored, computed));
}

std::uint64_t open_scratch_bytes(const Array& array) {
  if (!array.zstd) return 0;
  const ChunkForm form = array.form();
  const bool elsewhere = form.cells > 1 || !array.order.empty();
  return zstd_scratch_bytes() + (elsewhere ? form.cell_bytes : 0);
}

void open_chunk(const Array& array, const Shape& chunk, std::span<const std::byte> stored,
                std::span<std::byte> out, std::span<std::byte> scratch) {
  const ChunkForm form = array.form();
  HFSHARD_CHECK(out.size() == form.cell_bytes * form.cells);
  HFSHARD_CHECK(scratch.size() >= open_scratch_bytes(array));
  if (array.sharded) {
    open_shard(array, chunk, stored, out, scratch);
    return;
  }
  const bool direct = array.order.empty();
  const auto packed = array.crc32c ? without_crc(stored) : stored;
  const auto cell =
      open_cell(array, packed, form.cell_bytes, direct ? out : std::span<std::byte>(), scratch);
  if (!direct) {
    undo_transpose(array, cell, out);
  } else if (!array.zstd) {
    std::ranges::copy(cell, out.begin());
  }
}

}  // namespace hfshard::target::orbax::zarr
