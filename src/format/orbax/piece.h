#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "catalog/checkpoint.h"
#include "catalog/piece.h"
#include "format/orbax/chunk_index.h"
#include "format/orbax/zarr/array.h"

namespace hfshard::format::orbax {

/// What one text of array metadata says.
struct ArrayKind {
  zarr::Array array;
  PieceForm form;
  zarr::Array::StoredBytes stored;
  Shape counts;  ///< of chunks, along each axis
  std::uint64_t chunks = 0;
};

/// Reads a chunk; what goes wrong names the chunk by its key, file, range and `leaf`. `kind` and
/// `leaf` live as long as the reader.
std::unique_ptr<PieceReader> open_stored(StoredChunk stored, const ArrayKind& kind,
                                         const Shape& chunk, PieceSteps steps,
                                         std::span<std::byte> scratch, const std::string& leaf);
/// A chunk that is not stored: its elements are the fill value.
std::unique_ptr<PieceReader> open_fill(const zarr::Array& array);

}  // namespace hfshard::format::orbax
