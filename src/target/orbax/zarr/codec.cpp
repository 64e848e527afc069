#include "target/orbax/zarr/codec.h"

#include <cstring>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/crc32c.h"

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

}  // namespace

void seal_chunk(const ChunkForm& form, std::span<std::byte> stored) {
  HFSHARD_CHECK(stored.size() == form.stored_bytes());
  HFSHARD_CHECK(form.cell_suffix_bytes == 0 || form.cell_suffix_bytes == kCrcBytes);
  const std::uint64_t step = form.cell_bytes + form.cell_suffix_bytes;
  if (form.cell_suffix_bytes != 0) {
    for (std::uint64_t cell = 0; cell < form.cells; ++cell) {
      std::byte* at = stored.data() + cell * step;
      put_crc({at, form.cell_bytes}, at + form.cell_bytes);
    }
  }
  if (form.tail_bytes == 0) return;
  HFSHARD_CHECK(form.tail_bytes == kIndexEntryBytes * form.cells + kCrcBytes);
  const std::span<std::byte> index = stored.last(form.tail_bytes);
  for (std::uint64_t cell = 0; cell < form.cells; ++cell) {
    store_le(index.data() + cell * kIndexEntryBytes, std::uint64_t{cell * step});
    store_le(index.data() + cell * kIndexEntryBytes + 8, step);
  }
  put_crc(index.first(index.size() - kCrcBytes), index.data() + index.size() - kCrcBytes);
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

void open_shard(const Array& array, std::span<const std::byte> stored, std::span<std::byte> out) {
  const ChunkForm form = array.form();
  HFSHARD_CHECK(array.sharded && stored.size() == form.stored_bytes() &&
                out.size() == form.cell_bytes * form.cells);
  const std::span<const std::byte> index = stored.last(form.tail_bytes);
  const std::uint64_t data_bytes = stored.size() - index.size();
  const auto entries = index.first(index.size() - kCrcBytes);
  if (crc32c(entries) != load_le<std::uint32_t>(entries.data() + entries.size())) {
    throw Error(ErrorCode::corrupt, "checksum mismatch in the index of inner chunks")
        .at({data_bytes, stored.size()}, stored.size());
  }
  const std::size_t element_bytes = size_bits(array.dtype) / 8;
  for (std::uint64_t cell = 0; cell < form.cells; ++cell) {
    const auto offset = load_le<std::uint64_t>(entries.data() + cell * kIndexEntryBytes);
    const auto length = load_le<std::uint64_t>(entries.data() + cell * kIndexEntryBytes + 8);
    if (length != form.cell_bytes + form.cell_suffix_bytes ||
        !in_range(offset, length, data_bytes)) {
      const bool absent = offset == UINT64_MAX && length == UINT64_MAX;
      throw Error(
          ErrorCode::corrupt,
          absent ? fmt::format("inner chunk {} of {} is missing", cell, form.cells)
                 : fmt::format("inner chunk {} has offset {} and length {}; length {} within {} "
                               "bytes is wanted",
                               cell, offset, length, form.cell_bytes + form.cell_suffix_bytes,
                               data_bytes))
          .at({data_bytes + cell * kIndexEntryBytes, data_bytes + (cell + 1) * kIndexEntryBytes},
              stored.size());
    }
    const auto bytes = stored.subspan(offset, form.cell_bytes);
    if (array.crc32c) {
      try {
        check_cell(bytes, stored.subspan(offset + form.cell_bytes, kCrcBytes));
      } catch (Error& error) {  // only here is the range known
        throw error.at({offset, offset + length}, stored.size());
      }
    }
    scatter(array.chunk, array.inner, cell_at(array, cell), element_bytes, bytes, out);
  }
}

}  // namespace hfshard::target::orbax::zarr
