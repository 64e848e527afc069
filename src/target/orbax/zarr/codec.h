#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "plan/place.h"
#include "target/orbax/zarr/array.h"

#include "hfshard/dtype.h"

namespace hfshard::target::orbax::zarr {

/// Scratch of seal_chunk: a frame and its encoder.
std::uint64_t seal_scratch_bytes(const Array& array);

/// Encodes a chunk whose cells are in place: frames, checksums, shard index, one behind the other.
/// Returns their length. `scratch` has seal_scratch_bytes() of the form's array.
std::uint64_t seal_chunk(const ChunkForm& form, std::span<std::byte> stored,
                         std::span<std::byte> scratch);

/// Verifies a checksum at the end of a cell. Throws: corrupt.
void check_cell(std::span<const std::byte> cell, std::span<const std::byte> suffix);

/// Scratch of open_chunk: a decoder, and a cell that cannot be decoded in its place.
std::uint64_t open_scratch_bytes(const Array& array);

/// Decodes the stored chunk at `chunk` of the grid into `out`, packed row-major of the (outer)
/// chunk. Inner chunks may lie anywhere in front of the index; those outside of the array, which
/// TensorStore does not write, may be missing and become zeros. `scratch` has open_scratch_bytes().
/// Throws: corrupt (length, index, checksum, zstd frame, a missing inner chunk); the range it names
/// counts from the start of the chunk, and is absent if it is the whole of it.
void open_chunk(const Array& array, const Shape& chunk, std::span<const std::byte> stored,
                std::span<std::byte> out, std::span<std::byte> scratch);

}  // namespace hfshard::target::orbax::zarr
