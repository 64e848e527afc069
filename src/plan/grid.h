#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "ops/transfer.h"
#include "plan/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// How a leaf is cut. `chunk` is the stored (outer) chunk, `inner` the inner chunk (equal to
/// `chunk` where there is none); `shard` is the mesh's shard, for reports. All have the leaf's
/// rank; inner divides chunk.
struct Grid {
  Shape shard;
  Shape chunk;
  Shape inner;
  std::vector<std::uint8_t>
      order{};          ///< axes as a chunk is stored, slow to fast; empty: as they are
  bool linked = false;  ///< chunks are bytes of the source's files (plan/link.h)
  bool has_inner() const noexcept { return !(chunk == inner); }
  friend bool operator==(const Grid&, const Grid&) = default;
};

/// Number of chunks along each axis: ceil(shape / chunk); a zero dim has none.
Shape chunk_counts(const Shape& shape, const Shape& chunk);

/// Calls `visit` with the place of every chunk, row-major, until it returns false.
void for_each_chunk(const Shape& counts, const std::function<bool(const Shape& chunk)>& visit);

/// The axis that a target step moves along, in a tensor with these row-major strides.
std::size_t axis_of(const Shape& strides, std::int64_t dst_step) noexcept;

/// How fast each axis of a leaf moves in its first source: axes ordered slow to fast. Axes that
/// pick the source tensor (loops) come first; axes that no rule moves come last.
std::vector<std::size_t> source_order(const Leaf& leaf, const Transfer* first);

/// Cuts a leaf (design.md 6, Grid). `shard` is the extent of one mesh shard per axis (the common
/// refinement of all meshes); `order` as from source_order. Deterministic; depends on nothing but
/// its arguments.
Grid cut_grid(const Leaf& leaf, const Shape& shard, const std::vector<std::size_t>& order,
              std::uint64_t chunk_bytes, const Limits& limits);

}  // namespace hfshard
