#pragma once

#include <cstdint>
#include <optional>

#include "catalog/grid.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// Returns steps for a leaf's units, in elements per axis, so that each cell of its source's pieces
/// only feeds one unit. Units can begin and end at their multiples, and at the leaf's end. 1 means
/// anywhere. Empty if such units don't exist, since the cells feed more than this transfer, or are
/// decoded together with others.
std::optional<Shape> piece_window(const Leaf& leaf, const Transfer& transfer, const Grid& pieces);

/// Combines two windows: per axis the least common multiple, or the whole leaf.
Shape join_windows(const Leaf& leaf, const Shape& a, const Shape& b);

/// The way of reading pieces for a leaf, with the sizes of all buffers in addition to the unit's
/// region. The plan counts them and the run allocates them, both from here.
struct PieceBands {
  std::uint64_t band_bytes = 0;       ///< part of a cell read at once
  std::uint64_t converted_bytes = 0;  ///< in the leaf's dtype; 0: not converted
  std::uint64_t reader_bytes = 0;     ///< scratch of a piece reader
  std::uint64_t rows_bytes = 0;       ///< rows gathered for hashing
  std::uint64_t row_bytes = 0;        ///< one of these rows
  std::uint64_t scratch_bytes() const noexcept;
};
/// `reader_bytes` is Checkpoint::scratch_bytes of the array, for steps of any length.
PieceBands piece_bands(const Transfer& transfer, DType leaf_dtype, const Grid& pieces,
                       std::uint64_t reader_bytes, const Limits& limits);

/// The buffers for unpacking an array.
struct UnpackBands {
  std::uint64_t band_bytes = 0;  ///< twice: as stored, and row-major
  std::uint64_t reader_bytes = 0;
  std::uint64_t scratch_bytes() const noexcept { return 2 * band_bytes + reader_bytes; }
};
UnpackBands unpack_bands(DType dtype, const Grid& pieces, std::uint64_t reader_bytes,
                         const Limits& limits);

}  // namespace hfshard
