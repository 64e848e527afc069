#include "plan/grid.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/checked.h"

namespace hfshard {

Shape chunk_counts(const Shape& shape, const Shape& chunk) {
  Shape counts;
  for (std::size_t d = 0; d < shape.rank(); ++d) counts.push_back(ceil_div(shape[d], chunk[d]));
  return counts;
}

void for_each_chunk(const Shape& counts, const std::function<bool(const Shape& chunk)>& visit) {
  if (std::ranges::find(counts, std::uint64_t{0}) != counts.end()) return;
  Shape at = counts;
  for (std::size_t axis = 0; axis < at.rank(); ++axis) at[axis] = 0;
  while (visit(at)) {
    std::size_t axis = at.rank();
    while (axis > 0 && ++at[axis - 1] == counts[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

std::size_t axis_of(const Shape& strides, std::int64_t dst_step) noexcept {
  std::size_t axis = 0;
  while (axis + 1 < strides.rank() && static_cast<std::int64_t>(strides[axis]) > dst_step) ++axis;
  return axis;
}

std::vector<std::size_t> source_order(const Leaf& leaf, const Transfer* first) {
  constexpr std::int64_t kPicksSource = INT64_MAX;
  std::vector<std::int64_t> step(leaf.shape.rank(),
                                 0);  // largest source step per axis; 0: not moved
  if (first != nullptr) {
    const Shape strides = leaf.shape.strides();
    for (const Digit& digit : first->map.digits) {
      if (digit.extent < 2) continue;
      std::int64_t& slot = step[axis_of(strides, digit.dst_step)];
      slot = std::max(slot, std::abs(digit.src_step));
    }
    std::int64_t rank = kPicksSource;
    for (const Loop& loop : first->loops) {
      if (loop.extent > 1) step[axis_of(strides, loop.dst_step)] = rank--;
    }
  }
  std::vector<std::size_t> order(leaf.shape.rank());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return step[a] > step[b]; });
  return order;
}

namespace {

// The working state of one cut: what counts as small enough.
struct Cutter {
  const Leaf& leaf;
  const Limits& limits;
  std::uint64_t chunk_bytes;
  std::uint64_t fan;
  Shape chunk;

  std::uint64_t bytes() const { return packed_bytes_of(chunk.numel()); }
  std::uint64_t packed_bytes_of(std::uint64_t numel) const {
    return ceil_div(numel * size_bits(leaf.dtype), 8);
  }
  bool fits(std::uint64_t bytes) const {
    if (bytes > chunk_bytes) return false;
    const std::uint64_t floor = std::min(limits.floor_bytes, chunk_bytes);
    const std::uint64_t bound =
        limits.fan_bytes / fan < floor ? limits.fan_small_bytes : limits.fan_bytes;
    return bytes <= bound / fan;
  }
  // Divides the extent of one axis by its smallest divisor that makes the chunk fit, else down
  // to 1.
  void cut(std::size_t axis) {
    const std::uint64_t extent = chunk[axis];
    const std::uint64_t rest = extent == 0 ? 0 : chunk.numel() / extent;
    for (std::uint64_t divisor = 1; divisor <= extent; ++divisor) {
      if (extent % divisor != 0) continue;
      if (fits(packed_bytes_of(rest * (extent / divisor)))) {
        chunk[axis] = extent / divisor;
        return;
      }
    }
    chunk[axis] = 1;
  }
  // Multiplies the extent along a stacked axis by the smallest divisor of its length that reaches
  // the floor.
  void grow(std::size_t axis, std::uint64_t floor) {
    const std::uint64_t single = bytes();
    const std::uint64_t length = leaf.shape[axis];
    std::uint64_t best = 1;
    for (std::uint64_t divisor = 1; divisor <= length; ++divisor) {
      if (length % divisor != 0) continue;
      if (!fits(single * divisor)) break;
      best = divisor;
      if (single * divisor >= floor) break;
    }
    chunk[axis] = best;
  }
};

// Halves (or divides by the smallest prime factor) the largest per-axis count until at most `most`
// shards are left.
Shape cap_counts(Shape counts, std::uint64_t most) {
  while (counts.numel() > most) {
    const auto largest =
        static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    std::uint64_t factor = 2;
    while (counts[largest] % factor != 0) ++factor;
    counts[largest] /= factor;
  }
  return counts;
}

Shape one_chunk(const Shape& shape) {
  Shape chunk;
  for (const std::uint64_t extent : shape) chunk.push_back(std::max<std::uint64_t>(extent, 1));
  return chunk;
}

// Shards along each axis; stacked axes are cut by layers instead.
Shape mesh_counts(const Leaf& leaf, const Shape& shard) {
  Shape counts;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    counts.push_back(leaf.is_stacked(d) ? 1 : ceil_div(leaf.shape[d], shard[d]));
  }
  return counts;
}

// Cuts unsharded axes before sharded ones until the chunk fits, slowest in the source first.
void cut_axes(Cutter& cutter, const Shape& outer, const std::vector<std::size_t>& order) {
  for (const bool sharded : {false, true}) {
    for (const std::size_t axis : order) {
      if (cutter.fits(cutter.bytes())) return;
      if (!cutter.leaf.is_stacked(axis) && (outer[axis] > 1) == sharded) cutter.cut(axis);
    }
  }
}

}  // namespace

Grid cut_grid(const Leaf& leaf, const Shape& shard, const std::vector<std::size_t>& order,
              std::uint64_t chunk_bytes, const Limits& limits) {
  const std::size_t rank = leaf.shape.rank();
  const std::uint64_t floor = std::min(limits.floor_bytes, chunk_bytes);
  if (ceil_div(leaf.shape.numel() * size_bits(leaf.dtype), 8) <= floor) {
    const Shape whole = one_chunk(leaf.shape);
    return {shard, whole, whole};
  }
  const Shape counts = mesh_counts(leaf, shard);
  const Shape outer = cap_counts(counts, limits.outer_shards);
  Cutter cutter{leaf, limits, chunk_bytes, outer.numel(), Shape()};
  for (std::size_t d = 0; d < rank; ++d) {
    cutter.chunk.push_back(leaf.is_stacked(d) ? 1 : ceil_div(leaf.shape[d], outer[d]));
  }
  cut_axes(cutter, outer, order);
  for (std::size_t d = 0; d < rank && cutter.bytes() < floor; ++d) {
    if (leaf.is_stacked(d)) cutter.grow(d, floor);
  }
  Grid grid{shard, cutter.chunk, cutter.chunk};
  if (counts.numel() > limits.outer_shards) {
    for (std::size_t d = 0; d < rank; ++d) {
      if (!leaf.is_stacked(d)) grid.inner[d] = std::gcd(grid.chunk[d], shard[d]);
    }
  }
  return grid;
}

}  // namespace hfshard
