#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// How an array is split into pieces: a regular grid in closed form. `chunk` is the shape of a
/// stored piece, and `inner` of its inner chunks; they are equal without inner chunks. `shard` is
/// the mesh's shard, for reports. All have the array's rank; inner divides chunk. Pieces at the far
/// edges have the full size. Their elements outside of the array have no meaning.
struct Grid {
  Shape shard;
  Shape chunk;
  Shape inner;
  /// Axes in storage order of a piece, slow to fast. Empty if that is their own order.
  std::vector<std::uint8_t> order{};
  bool linked = false;  ///< pieces are in the source's files, unencoded
  bool has_inner() const noexcept { return !(chunk == inner); }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Returns the chunk of an array that has a single piece.
Shape whole_chunk(const Shape& shape);
/// Returns the number of pieces along each axis: ceil(shape / chunk), and 0 for a dim of 0.
Shape chunk_counts(const Shape& shape, const Shape& chunk);

/// Returns Grid::order, or the axes' own order if it is empty.
std::vector<std::uint8_t> storage_order(const Grid& grid);
/// Returns the distance in elements between neighbors along each axis, in a box that is packed with
/// its axes in `order` (Grid::order).
Shape stored_strides(const Shape& extent, const std::vector<std::uint8_t>& order);

/// Calls `visit` with the coordinates of every piece, row-major, until it returns false.
void for_each_chunk(const Shape& counts, const std::function<bool(const Shape& chunk)>& visit);

}  // namespace hfshard
