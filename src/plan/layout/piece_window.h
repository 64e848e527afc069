#pragma once

#include <cstdint>
#include <optional>

#include "catalog/grid.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// Where a unit of a leaf may begin and end along each axis, in elements, so that whatever a cell
/// of its source's pieces feeds lies in one unit: at multiples, and at the leaf's end. 1: anywhere.
/// Nothing if there is no such unit: the cells feed more than this transfer does, or are decoded
/// together with others.
std::optional<Shape> piece_window(const Leaf& leaf, const Transfer& transfer, const Grid& pieces);

/// What lets both windows be kept to: per axis the least common multiple, or all of the leaf.
Shape join_windows(const Leaf& leaf, const Shape& a, const Shape& b);

/// How pieces are read for a leaf, and the bytes of every buffer that it takes beside the unit's
/// region. The plan counts them and the run cuts them, both from here.
struct PieceBands {
  std::uint64_t band_bytes = 0;       ///< of a cell, as stored, that are read at once
  std::uint64_t converted_bytes = 0;  ///< as the leaf stores them; 0 if they are moved as they are
  std::uint64_t reader_bytes = 0;     ///< a piece reader's own
  std::uint64_t rows_bytes = 0;       ///< rows of the source, gathered to be hashed
  std::uint64_t row_bytes = 0;        ///< one of them
  std::uint64_t scratch_bytes() const noexcept;
};
/// `reader_bytes`: Checkpoint::scratch_bytes of the array, for steps of any length.
PieceBands piece_bands(const Transfer& transfer, DType leaf_dtype, const Grid& pieces,
                       std::uint64_t reader_bytes, const Limits& limits);

/// The same for an array that is unpacked.
struct UnpackBands {
  std::uint64_t band_bytes = 0;  ///< twice: as stored, and row-major
  std::uint64_t reader_bytes = 0;
  std::uint64_t scratch_bytes() const noexcept { return 2 * band_bytes + reader_bytes; }
};
UnpackBands unpack_bands(DType dtype, const Grid& pieces, std::uint64_t reader_bytes,
                         const Limits& limits);

}  // namespace hfshard
