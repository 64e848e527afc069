#include "plan/layout/cut_grid.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/checked.h"
#include "plan/layout/band.h"

namespace hfshard {

std::size_t axis_of(const Shape& strides, std::int64_t dst_step) noexcept {
  std::size_t axis = 0;
  while (axis + 1 < strides.rank() && static_cast<std::int64_t>(strides[axis]) > dst_step) ++axis;
  return axis;
}

std::vector<std::size_t> source_order(const Leaf& leaf, const Transfer* first) {
  constexpr std::int64_t kPicksSource = INT64_MAX;
  std::vector<std::int64_t> step(leaf.shape.rank(),
                                 0);  // largest per axis; 0: not moved
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

std::vector<bool> row_axes(const Leaf& leaf, const Transfer* first) {
  std::vector<bool> out(leaf.shape.rank(), false);
  if (first == nullptr) return out;
  const Shape strides = leaf.shape.strides();
  const std::uint64_t row = row_length(*first);
  for (const Digit& digit : first->map.digits) {
    if (digit.extent > 1 && static_cast<std::uint64_t>(std::abs(digit.src_step)) < row)
      out[axis_of(strides, digit.dst_step)] = true;
  }
  return out;
}

Divisors divisors_near(std::uint64_t extent, std::uint64_t parts) {
  constexpr std::uint64_t kMaxDivided = UINT32_MAX;
  Divisors out{1, extent};
  const auto take = [&](std::uint64_t divisor) {
    if (divisor < parts) {
      out.below = std::max(out.below, divisor);
    } else {
      out.enough = std::min(out.enough, divisor);
    }
  };
  take(1);
  if (extent > kMaxDivided) return out;
  for (std::uint64_t i = 1; i * i <= extent; ++i) {
    if (extent % i != 0) continue;
    take(i);
    take(extent / i);
  }
  return out;
}

namespace {

// A divisor is near if it makes at most this many times the needed chunks. For shards and layers,
// which lack a good alternative, it is also near if chunks have 1/kTiny of the floor.
constexpr std::uint64_t kNear = 4;
constexpr std::uint64_t kTiny = 16;
// Edge chunks of a leaf may add 1/kPadding to its stored size. Codecs may add the rest of a tenth.
constexpr std::uint64_t kPadding = 16;
// Extents to try for a ragged axis. With so many on a single axis, one reaches 1/kPadding.
constexpr std::uint64_t kTries = 64;
// A chunk across shards is at most this part of a shard, so that loading a shard reads two parts
// more.
constexpr std::uint64_t kAcross = 32;
// Inner chunks below this part of the floor don't justify their checksums, index and requests.
constexpr std::uint64_t kCellsOfFloor = 4096;

// The state of one cut. Sizes are in elements.
struct Cutter {
  const Leaf& leaf;
  std::vector<bool> in_row;   // axes that a unit spans
  std::vector<bool> sharded;  // axes that the mesh splits
  Shape shard;
  std::uint64_t most;   // for a chunk
  std::uint64_t floor;  // chunks grow up to this
  std::uint64_t slab;   // the largest unit
  Shape chunk;
  std::vector<bool> across{};  // axes with chunks across shards

  bool fits() const { return chunk.numel() <= most; }
  // Returns the largest extent of a chunk along an axis. 0 if a single element is too much.
  std::uint64_t room(std::size_t axis) const { return most / (chunk.numel() / chunk[axis]); }
  // Returns the size of a unit: the whole leaf along the axes of a source row, one chunk along
  // others.
  std::uint64_t unit() const {
    std::uint64_t out = 1;
    for (std::size_t d = 0; d < chunk.rank(); ++d)
      out *= in_row[d] ? round_up(leaf.shape[d], chunk[d]) : chunk[d];
    return out;
  }
  bool holds() const { return unit() <= slab; }

  // Returns whether edge chunks stay small with this extent along an axis. Packed chunks must also
  // have whole bytes.
  bool pads_little(std::size_t axis, std::uint64_t extent) const {
    std::uint64_t stored = 1;
    for (std::size_t d = 0; d < chunk.rank(); ++d)
      stored *= round_up(leaf.shape[d], d == axis ? extent : chunk[d]);
    const std::uint64_t numel = leaf.shape.numel();
    return stored <= numel + numel / kPadding &&
           chunk.numel() / chunk[axis] * extent * size_bits(leaf.dtype) % 8 == 0;
  }

  // Cuts an axis to at most `room`: evenly if a divisor is near, else with a ragged last chunk.
  // Returns false, without changes, if that chunk would be within a shard.
  bool cut(std::size_t axis, std::uint64_t room) {
    const std::uint64_t extent = chunk[axis];
    if (room == 0) {
      chunk[axis] = 1;
      return true;
    }
    const std::uint64_t parts = ceil_div(extent, room);
    const std::uint64_t enough = divisors_near(extent, parts).enough;
    const std::uint64_t even = chunk.numel() / extent * (extent / enough);
    if (enough <= kNear * parts || (sharded[axis] && even >= floor / kTiny)) {
      chunk[axis] = extent / enough;
      return true;
    }
    if (sharded[axis]) return false;
    chunk[axis] = extent / enough;
    for (std::uint64_t p = parts; p < parts + kTries && p < enough; ++p) {
      if (!pads_little(axis, ceil_div(extent, p))) continue;
      chunk[axis] = ceil_div(extent, p);
      break;
    }
    return true;
  }
  // Cuts a sharded axis regardless of shards.
  void cut_across(std::size_t axis, std::uint64_t room) {
    chunk[axis] = std::max<std::uint64_t>(std::min(room, shard[axis] / kAcross), 1);
    across[axis] = shard[axis] % chunk[axis] != 0;
  }
  // Divides a sharded axis, but less than necessary.
  void cut_less(std::size_t axis) {
    const std::uint64_t parts = ceil_div(chunk[axis], std::max<std::uint64_t>(room(axis), 1));
    chunk[axis] /= divisors_near(chunk[axis], parts).below;
  }

  // Grows along a stacked axis up to the floor. Takes the smallest divisor of its length that
  // reaches the floor, else the largest that fits, else a ragged last chunk.
  void grow(std::size_t axis) {
    const std::uint64_t single = chunk.numel();
    const std::uint64_t length = leaf.shape[axis];
    const std::uint64_t room = std::min(most / single, slab / unit());
    const std::uint64_t wanted = ceil_div(floor, single);
    if (room < 2) return;
    std::uint64_t best = divisors_near(length, wanted).enough;
    if (best > room) best = divisors_near(length, room + 1).below;
    const bool tiny = best * kNear < wanted && best * single < floor / kTiny;
    for (std::uint64_t e = wanted; tiny && e <= room && e < wanted + kTries; ++e) {
      if (!pads_little(axis, e)) continue;
      best = e;
      break;
    }
    chunk[axis] = best;
  }
};

// Divides the largest per-axis count by its smallest prime factor until at most `most` shards are
// left. A count without a small factor becomes one.
Shape cap_counts(Shape counts, std::uint64_t most) {
  constexpr std::uint64_t kLargestFactor = std::uint64_t{1} << 16;
  while (counts.numel() > most) {
    const auto largest =
        static_cast<std::size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin());
    std::uint64_t factor = 2;
    while (factor < kLargestFactor && counts[largest] % factor != 0) ++factor;
    counts[largest] = counts[largest] % factor == 0 ? counts[largest] / factor : 1;
  }
  return counts;
}

// Returns the shards along each axis. Stacked axes are cut by layers instead.
Shape mesh_counts(const Leaf& leaf, const Shape& shard) {
  Shape counts;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    counts.push_back(leaf.is_stacked(d) ? 1 : ceil_div(leaf.shape[d], shard[d]));
  }
  return counts;
}

// Cuts axes until the chunk fits: unsharded ones before sharded ones, slowest in the source first.
// Axes without a near divisor within a shard come last, and are cut as far as possible.
void cut_axes(Cutter& cutter, const Shape& outer, const std::vector<std::size_t>& order) {
  std::vector<std::size_t> left;
  for (const bool sharded : {false, true}) {
    for (const std::size_t axis : order) {
      if (cutter.leaf.is_stacked(axis) || (outer[axis] > 1) != sharded || cutter.fits()) continue;
      const std::uint64_t room = cutter.room(axis);
      if (room == 0 && !left.empty()) continue;
      if (!cutter.cut(axis, room)) left.push_back(axis);
    }
  }
  for (const std::size_t axis : left) cutter.cut_less(axis);
}

// Cuts the axes that a unit doesn't span until it fits in the slab.
void cut_units(Cutter& cutter, const std::vector<std::size_t>& order) {
  const std::uint64_t most = cutter.slab - cutter.slab / kPadding;
  for (const std::size_t axis : order) {
    if (cutter.leaf.is_stacked(axis) || cutter.in_row[axis] || cutter.holds()) continue;
    const std::uint64_t room = most / (cutter.unit() / cutter.chunk[axis]);
    if (!cutter.cut(axis, room)) cutter.cut_across(axis, room);
  }
}

Cutter make_cutter(const Leaf& leaf, const Shape& shard, std::uint64_t fan,
                   std::uint64_t chunk_bytes, const Limits& limits, std::vector<bool> in_row) {
  const std::size_t rank = leaf.shape.rank();
  const std::uint64_t floor = std::min(limits.floor_bytes, chunk_bytes);
  const std::uint64_t fan_bytes =
      limits.fan_bytes / fan < floor ? limits.fan_small_bytes : limits.fan_bytes;
  const std::uint64_t bits = size_bits(leaf.dtype);
  in_row.resize(rank, false);
  Cutter out{leaf,
             std::move(in_row),
             {},
             shard,
             std::min(chunk_bytes, fan_bytes / fan) * 8 / bits,
             ceil_div(floor * 8, bits),
             limits.slab_bytes / bits * 8,
             Shape()};
  out.across.resize(rank, false);
  for (std::size_t d = 0; d < rank; ++d)
    out.sharded.push_back(!leaf.is_stacked(d) && leaf.shape[d] != shard[d]);
  return out;
}

// Where stored chunks don't follow the exact mesh, inner chunks do.
Shape inner_chunk(const Cutter& cutter, const Limits& limits) {
  Shape inner = cutter.chunk;
  for (std::size_t d = 0; d < inner.rank(); ++d) {
    if (cutter.sharded[d] && !cutter.across[d]) inner[d] = std::gcd(inner[d], cutter.shard[d]);
  }
  const std::uint64_t bytes = inner.numel() * size_bits(cutter.leaf.dtype) / 8;
  return bytes < limits.floor_bytes / kCellsOfFloor ? cutter.chunk : inner;
}

}  // namespace

Grid cut_grid(const Leaf& leaf, const Shape& shard, const std::vector<std::size_t>& order,
              std::uint64_t chunk_bytes, const Limits& limits, const std::vector<bool>& in_row) {
  const std::size_t rank = leaf.shape.rank();
  const std::uint64_t floor = std::min(limits.floor_bytes, chunk_bytes);
  if (ceil_div(leaf.shape.numel() * size_bits(leaf.dtype), 8) <= floor) {
    const Shape whole = whole_chunk(leaf.shape);
    return {shard, whole, whole};
  }
  const Shape counts = mesh_counts(leaf, shard);
  const Shape outer = cap_counts(counts, limits.outer_shards);
  Cutter cutter = make_cutter(leaf, shard, outer.numel(), chunk_bytes, limits, in_row);
  for (std::size_t d = 0; d < rank; ++d) {
    cutter.chunk.push_back(leaf.is_stacked(d) ? 1 : ceil_div(leaf.shape[d], outer[d]));
  }
  const Shape whole = cutter.chunk;
  cut_axes(cutter, outer, order);
  if (!cutter.holds()) {
    cutter.chunk = whole;
    cut_units(cutter, order);
    cut_axes(cutter, outer, order);
  }
  for (std::size_t d = 0; d < rank && cutter.chunk.numel() < cutter.floor; ++d) {
    if (leaf.is_stacked(d)) cutter.grow(d);
  }
  const bool has_inner = counts.numel() > limits.outer_shards;
  return {shard, cutter.chunk, has_inner ? inner_chunk(cutter, limits) : cutter.chunk};
}

}  // namespace hfshard
