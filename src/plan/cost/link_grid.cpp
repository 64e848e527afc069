#include "plan/cost/link_grid.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "plan/layout/source_part.h"

namespace hfshard {
namespace {

// The digit of a map that moves along an axis by single elements.
struct UnitDigit {
  std::size_t axis = 0;
  std::uint64_t src_step = 0;
};

IndexMap axis_map(const Transfer& transfer, const Leaf& leaf) {
  return split_by_axes(normalize(transfer.map), leaf.shape);
}

std::string refusal(const Leaf& leaf, std::span<const Transfer* const> transfers, bool has_fills) {
  if (has_fills) return "a part of it is filled in";
  if (transfers.empty() || leaf.shape.numel() == 0) return "it has no source";
  for (const Transfer* transfer : transfers) {
    if (transfer->decode) return "its source is quantized";
    if (!transfer->value.empty()) return "its values are computed";
    if (transfer->source_dtype != leaf.dtype) {
      return fmt::format("it is cast from {} to {}", to_string(transfer->source_dtype),
                         to_string(leaf.dtype));
    }
  }
  return {};
}

// Reduces `extents` to divisors of all boundaries of a transfer along the axes, since the shape of
// a chunk must divide them. `units` receives the digits that move by single elements.
void narrow(const Transfer& transfer, const Leaf& leaf, Shape& extents,
            std::vector<UnitDigit>& units) {
  const Shape strides = leaf.shape.strides();
  const IndexMap map = axis_map(transfer, leaf);
  std::vector<bool> moved(leaf.shape.rank(), false);
  const auto within = [&](std::size_t axis, std::int64_t dst_step) {
    return static_cast<std::uint64_t>(dst_step) / strides[axis];
  };
  units.clear();
  for (const Digit& digit : map.digits) {
    if (digit.extent < 2) continue;
    const std::size_t axis = axis_of(strides, digit.dst_step);
    const std::uint64_t step = within(axis, digit.dst_step);
    extents[axis] = std::gcd(extents[axis], step == 1 ? digit.extent : step);
    if (step != 1) continue;
    moved[axis] = true;
    units.push_back({axis, static_cast<std::uint64_t>(std::abs(digit.src_step))});
  }
  for (const Loop& loop : transfer.loops) {
    if (loop.extent < 2) continue;
    const std::size_t axis = axis_of(strides, loop.dst_step);
    extents[axis] = std::gcd(extents[axis], within(axis, loop.dst_step));
  }
  for (std::size_t axis = 0; axis < leaf.shape.rank(); ++axis) {
    extents[axis] = std::gcd(extents[axis], map.dst_base / strides[axis] % leaf.shape[axis]);
    if (!moved[axis]) extents[axis] = 1;  // the source has one index there
  }
}

// Axes that a chunk spans, fastest in the source first, as far as they are one run.
std::vector<std::size_t> run_axes(std::vector<UnitDigit> units, const Shape& extents,
                                  const Shape& shape) {
  std::ranges::sort(units, {}, &UnitDigit::src_step);
  std::vector<std::size_t> out;
  std::uint64_t run = 1;
  for (const UnitDigit& unit : units) {
    if (unit.src_step != run || extents[unit.axis] == 1) break;
    out.push_back(unit.axis);
    run *= extents[unit.axis];
    if (extents[unit.axis] != shape[unit.axis]) break;  // the next one begins elsewhere
  }
  return out;
}

// Cuts `chunk` along `slow_first` while it stays one run: an axis can be cut when all slower ones
// have one index.
void cut_run(Shape& chunk, const std::vector<std::size_t>& slow_first, const Shape& shard,
             std::uint64_t element_bits, std::uint64_t chunk_bytes, const Limits& limits) {
  const auto bytes = [&] { return chunk.numel() * element_bits / 8; };
  const auto wants = [&](std::size_t axis) {
    return std::gcd(chunk[axis], std::max<std::uint64_t>(shard[axis], 1));
  };
  std::uint64_t pieces = 1;
  for (std::size_t k = 0; k < slow_first.size(); ++k) {
    const std::size_t axis = slow_first[k];
    const std::uint64_t left = bytes() / pieces / chunk[axis] * wants(axis);
    if (wants(axis) < chunk[axis] && left >= (k == 0 ? limits.run_bytes : limits.floor_bytes)) {
      for (std::size_t slower = 0; slower < k; ++slower) chunk[slow_first[slower]] = 1;
      chunk[axis] = wants(axis);
      if (chunk[axis] > 1) break;
    }
    pieces *= chunk[axis];
  }
  for (const std::size_t axis : slow_first) {
    if (bytes() <= chunk_bytes) return;
    const std::uint64_t extent = chunk[axis];
    const std::uint64_t rest = bytes() / extent;
    const std::uint64_t room = std::max<std::uint64_t>(chunk_bytes / rest, 1);
    chunk[axis] = extent / divisors_near(extent, ceil_div(extent, room)).enough;
  }
}

std::vector<std::uint8_t> stored_order(const Shape& chunk,
                                       const std::vector<std::size_t>& slow_first) {
  std::vector<std::uint8_t> order;
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    if (std::ranges::find(slow_first, axis) == slow_first.end())
      order.push_back(static_cast<std::uint8_t>(axis));
  }
  for (const std::size_t axis : slow_first) order.push_back(static_cast<std::uint8_t>(axis));
  return std::ranges::is_sorted(order) ? std::vector<std::uint8_t>() : order;
}

// Whether a part of a map lays the source's elements out as the chunk is stored.
bool stored_so(const IndexMap& part, const Leaf& leaf, const Grid& grid) {
  if (part.count() != grid.chunk.numel()) return false;
  const Shape strides = leaf.shape.strides();
  const Shape stored = stored_strides(grid.chunk, grid.order);
  return std::ranges::all_of(part.digits, [&](const Digit& digit) {
    const std::size_t axis = axis_of(strides, digit.dst_step);
    const std::uint64_t step = static_cast<std::uint64_t>(digit.dst_step) / strides[axis];
    return digit.extent < 2 || digit.src_step == static_cast<std::int64_t>(step * stored[axis]);
  });
}

}  // namespace

std::optional<LinkedChunk> linked_chunk(const Leaf& leaf, const Grid& grid,
                                        std::span<const Transfer* const> transfers,
                                        const Shape& chunk) {
  Box box;
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    box.begin.push_back(chunk[axis] * grid.chunk[axis]);
    box.extent.push_back(grid.chunk[axis]);
  }
  std::optional<LinkedChunk> out;
  bool one_run = true;
  for (std::size_t t = 0; t < transfers.size(); ++t) {
    const IndexMap map = axis_map(*transfers[t], leaf);
    SourcePartCursor parts(*transfers[t], map, leaf, box);
    while (const SourcePart* part = parts.next()) {
      one_run = one_run && !out && stored_so(part->map, leaf, grid);
      out = LinkedChunk{t, part->source, part->map.src_base};
    }
  }
  return one_run ? out : std::nullopt;
}

LinkChoice link_grid(const Leaf& leaf, std::span<const Transfer* const> transfers, bool has_fills,
                     const Shape& shard, std::uint64_t chunk_bytes, const Limits& limits) {
  LinkChoice out;
  out.why = refusal(leaf, transfers, has_fills);
  if (!out.why.empty()) return out;
  Shape extents = leaf.shape;
  std::vector<UnitDigit> units;
  for (const Transfer* transfer : transfers) {
    std::vector<UnitDigit> own;
    narrow(*transfer, leaf, extents, own);
    if (units.empty()) units = std::move(own);
  }
  std::vector<std::size_t> axes = run_axes(std::move(units), extents, leaf.shape);
  std::ranges::reverse(axes);
  Grid grid{shard, leaf.shape, Shape()};
  for (std::size_t axis = 0; axis < leaf.shape.rank(); ++axis) {
    const bool spans = std::ranges::find(axes, axis) != axes.end();
    grid.chunk[axis] = spans ? extents[axis] : 1;
  }
  const std::uint64_t bits = size_bits(leaf.dtype);
  if (leaf.shape.numel() * bits / 8 > std::min(limits.floor_bytes, chunk_bytes))
    cut_run(grid.chunk, axes, shard, bits, chunk_bytes, limits);
  const std::uint64_t piece = grid.chunk.numel();
  if (piece < transfers.front()->source_shape.numel() &&
      piece * bits / 8 < limits.link_piece_bytes) {
    out.why = fmt::format("its elements are in pieces of {} bytes", piece * bits / 8);
    return out;
  }
  grid.inner = grid.chunk;
  grid.order = stored_order(grid.chunk, axes);
  grid.linked = true;
  bool sound = true;
  for_each_chunk(chunk_counts(leaf.shape, grid.chunk), [&](const Shape& chunk) {
    return sound = linked_chunk(leaf, grid, transfers, chunk).has_value();
  });
  if (sound) {
    out.grid = std::move(grid);
  } else {
    out.why = "its elements have another order";
  }
  return out;
}

}  // namespace hfshard
