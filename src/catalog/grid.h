#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "hfshard/dtype.h"

namespace hfshard {

/// How an array is cut into pieces: a regular grid in closed form. `chunk` is the stored piece,
/// `inner` what it is cut into itself (equal to `chunk` where it is not); `shard` is the mesh's
/// shard, for reports. All have the array's rank; inner divides chunk. Pieces at the far edges are
/// as large as the others: what lies outside of the array has no meaning.
struct Grid {
  Shape shard;
  Shape chunk;
  Shape inner;
  std::vector<std::uint8_t>
      order{};          ///< axes as a piece is stored, slow to fast; empty: as they are
  bool linked = false;  ///< pieces are bytes of the source's files, so they are not encoded
  bool has_inner() const noexcept { return !(chunk == inner); }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// The piece of an array that has one.
Shape whole_chunk(const Shape& shape);
/// Number of pieces along each axis: ceil(shape / chunk); a zero dim has none.
Shape chunk_counts(const Shape& shape, const Shape& chunk);

/// The axes as a grid's pieces are stored, slow to fast: its order, filled in where it is empty.
std::vector<std::uint8_t> storage_order(const Grid& grid);
/// Elements between neighbours along each axis of a box that is packed with its axes in an order
/// (Grid::order).
Shape stored_strides(const Shape& extent, const std::vector<std::uint8_t>& order);

/// Calls `visit` with the place of every piece, row-major, until it returns false.
void for_each_chunk(const Shape& counts, const std::function<bool(const Shape& chunk)>& visit);

}  // namespace hfshard
