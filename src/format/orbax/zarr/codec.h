#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "catalog/piece.h"
#include "format/orbax/zarr/array.h"

namespace hfshard::format::orbax::zarr {

/// Sizes of a checksum, and of a cell's offset and length in the index.
inline constexpr std::size_t kCrcBytes = 4;
inline constexpr std::size_t kIndexEntryBytes = 16;

/// Returns the scratch of seal_chunk: a frame and its encoder.
std::uint64_t seal_scratch_bytes(const Array& array);

/// Encodes a chunk whose cells are in place: frames, checksums, shard index, packed at the front.
/// Returns their length. `scratch` has seal_scratch_bytes() of the form's array.
std::uint64_t seal_chunk(const PieceForm& form, std::span<std::byte> stored,
                         std::span<std::byte> scratch);

}  // namespace hfshard::format::orbax::zarr
