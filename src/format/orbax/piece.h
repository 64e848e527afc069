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

/// The contents of one text of array metadata.
struct ArrayKind {
  zarr::Array array;
  PieceForm form;
  zarr::Array::StoredBytes stored;
  Shape counts;  ///< of chunks, along each axis
  std::uint64_t chunks = 0;
};

/// Opens a reader of a stored chunk. Its errors name the chunk by its key, file, range and `leaf`.
/// `kind` and `leaf` must outlive the reader.
std::unique_ptr<PieceReader> open_stored(StoredChunk stored, const ArrayKind& kind,
                                         const Shape& chunk, PieceSteps steps,
                                         std::span<std::byte> scratch, const std::string& leaf);
/// Opens a reader of a chunk that isn't stored. All its elements are the fill value.
std::unique_ptr<PieceReader> open_fill(const zarr::Array& array);

}  // namespace hfshard::format::orbax
