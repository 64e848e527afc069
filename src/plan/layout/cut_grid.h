#pragma once

#include <cstdint>
#include <vector>

#include "catalog/grid.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// Returns the axis that a target step moves along, in a tensor with these row-major strides.
std::size_t axis_of(const Shape& strides, std::int64_t dst_step) noexcept;

/// Returns the axes of a leaf, ordered slow to fast by their speed in its first source. Axes that
/// select the source tensor (loops) come first. Axes that no rule moves come last.
std::vector<std::size_t> source_order(const Leaf& leaf, const Transfer* first);

/// Returns the axes that one row of the first source spans. A unit has the whole leaf along them,
/// so cutting them makes chunks smaller but not units.
std::vector<bool> row_axes(const Leaf& leaf, const Transfer* first);

/// The divisors of an extent next to a number of parts.
struct Divisors {
  std::uint64_t below = 1;   ///< the largest below it, else 1
  std::uint64_t enough = 1;  ///< the smallest other, else the extent
};

/// Takes at most 2^16 steps. Beyond 2^32, it only divides an extent by 1 and by itself.
Divisors divisors_near(std::uint64_t extent, std::uint64_t parts);

/// Cuts a leaf (design.md 6, Grid). `shard` is the extent of one mesh shard per axis (the common
/// refinement of all meshes). `order` is as from source_order, and `in_row` as from row_axes or
/// empty. Deterministic; depends only on its arguments.
///
/// An axis is divided by its smallest divisor that makes the chunk fit, if that is *near*. It is if
/// it makes at most four times the needed parts or, within a shard, chunks of at least 1/16 of the
/// floor. Without a near divisor:
/// - An axis that the mesh doesn't split gets a ragged last chunk. The leaf's edge chunks, stored
///   in full, may add 1/16 to it. The axis is cut into the fewest parts with this property.
/// - An axis that the mesh splits is cut last, since a regular grid can't have a ragged chunk at
///   the end of each shard. If the chunk is then still too large, it stays so, at the largest
///   divisor that makes too few parts. It never has more than a loader of one shard needs.
///
/// If a unit of such chunks doesn't fit in the slab, the axes that it doesn't span are cut first.
/// Without a near divisor within a shard, chunks cross the ends of shards. A chunk then has at most
/// 1/32 of a shard, so loading a shard reads 1/16 more. The alternatives are millions of chunks of
/// a few bytes, or no plan. Takes at most 2^16 steps per axis: no search for divisors beyond 2^32.
Grid cut_grid(const Leaf& leaf, const Shape& shard, const std::vector<std::size_t>& order,
              std::uint64_t chunk_bytes, const Limits& limits,
              const std::vector<bool>& in_row = {});

}  // namespace hfshard
