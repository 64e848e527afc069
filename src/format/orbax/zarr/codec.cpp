#include "format/orbax/zarr/codec.h"

#include <cstring>

#include "base/coding.h"
#include "base/crc32c.h"
#include "base/zstd.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::zarr {
namespace {

void put_crc(std::span<const std::byte> bytes, std::byte* to) { store_le(to, crc32c(bytes)); }

}  // namespace

std::uint64_t seal_scratch_bytes(const Array& array) {
  if (array.compressor == Compressor::none) return 0;
  const std::uint64_t cell = array.form().cell_bytes;
  return zstd_most_bytes(cell) + zstd_encoder_bytes(array.level, cell);
}

std::uint64_t seal_chunk(const PieceForm& form, std::span<std::byte> stored,
                         std::span<std::byte> scratch) {
  HFSHARD_CHECK(stored.size() == form.stored_bytes());
  HFSHARD_CHECK(form.cell_suffix_bytes == 0 || form.cell_suffix_bytes == kCrcBytes);
  HFSHARD_CHECK(form.tail_bytes == 0 ||
                form.tail_bytes == kIndexEntryBytes * form.cells + kCrcBytes);
  // Frames move to the front, never past their own cell. The index is first written at its place
  // without frames, and then moves behind the last frame.
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

}  // namespace hfshard::format::orbax::zarr
