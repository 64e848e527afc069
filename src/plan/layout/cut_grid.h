#pragma once

#include <cstdint>
#include <vector>

#include "catalog/grid.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// The axis that a target step moves along, in a tensor with these row-major strides.
std::size_t axis_of(const Shape& strides, std::int64_t dst_step) noexcept;

/// How fast each axis of a leaf moves in its first source: axes ordered slow to fast. Axes that
/// pick the source tensor (loops) come first; axes that no rule moves come last.
std::vector<std::size_t> source_order(const Leaf& leaf, const Transfer* first);

/// Axes that one row of the first source spans. A unit holds all of the leaf along them, so cutting
/// them makes chunks smaller and units not.
std::vector<bool> row_axes(const Leaf& leaf, const Transfer* first);

/// The divisors of an extent on both sides of a number of parts.
struct Divisors {
  std::uint64_t below = 1;   ///< the largest that is less, else 1
  std::uint64_t enough = 1;  ///< the smallest that is not, else the extent
};

/// Takes at most 2^16 steps: an extent above 2^32 is divided by 1 and by itself only.
Divisors divisors_near(std::uint64_t extent, std::uint64_t parts);

/// Cuts a leaf (design.md 6, Grid). `shard` is the extent of one mesh shard per axis (the common
/// refinement of all meshes); `order` as from source_order, `in_row` as from row_axes (empty:
/// none). Deterministic; depends on nothing but its arguments.
///
/// An axis is divided by its smallest divisor that makes the chunk fit, if that is *near*: at most
/// four times the parts that are needed, or, within a shard, chunks of at least 1/16 of the floor.
/// Where no divisor is near:
/// - An axis that the mesh does not split gets a ragged last chunk, of which the leaf's edge
/// chunks,
///   stored in full, may add 1/16 to it: into the fewest parts that keep to this.
/// - An axis that it splits is left for the last, since a regular grid cannot have a ragged chunk
/// at
///   the end of each shard. If the chunk is then too large still, it stays so, at the largest
///   divisor that makes too few parts: it never holds more than a loader of one shard wants.
/// If a unit of such chunks does not fit in the slab, the axes that it does not span are cut first,
/// so that it does. Where there is no near divisor within a shard, that is across the ends of
/// shards, to at most 1/32 of one: who loads a shard reads 1/16 beside it. The other ways are
/// millions of chunks of a few bytes, or no plan.
/// Takes at most 2^16 steps an axis: longer ones than 2^32 are not searched for divisors.
Grid cut_grid(const Leaf& leaf, const Shape& shard, const std::vector<std::size_t>& order,
              std::uint64_t chunk_bytes, const Limits& limits,
              const std::vector<bool>& in_row = {});

}  // namespace hfshard
