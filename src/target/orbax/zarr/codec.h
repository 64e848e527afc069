#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "plan/place.h"
#include "target/orbax/zarr/array.h"

#include "hfshard/dtype.h"

namespace hfshard::target::orbax::zarr {

/// Fills cell checksums and the shard index of a chunk whose cells are in place.
void seal_chunk(const ChunkForm& form, std::span<std::byte> stored);

/// Verifies a checksum at the end of a cell. Throws: corrupt.
void check_cell(std::span<const std::byte> cell, std::span<const std::byte> suffix);

/// Decodes a stored chunk with inner chunks into `out`, packed row-major of the outer chunk.
/// `stored` has the form's size; cells may lie anywhere in front of the index. Throws: corrupt
/// (index, checksum, a missing inner chunk); the range it names counts from the start of the chunk.
void open_shard(const Array& array, std::span<const std::byte> stored, std::span<std::byte> out);

}  // namespace hfshard::target::orbax::zarr
