#include "plan/layout/unit.h"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "plan/layout/band.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The digits of the leading map, fastest in the source first, each with its leaf axis.
struct SourceDigit {
  Digit digit;
  std::size_t axis;
};

std::vector<SourceDigit> digits_fast_first(const Leaf& leaf, const Transfer& first) {
  const Shape strides = leaf.shape.strides();
  std::vector<SourceDigit> out;
  for (const Digit& digit : first.map.digits) {
    if (digit.extent > 1) out.push_back({digit, axis_of(strides, digit.dst_step)});
  }
  std::ranges::stable_sort(out, [](const SourceDigit& a, const SourceDigit& b) {
    return std::abs(a.digit.src_step) < std::abs(b.digit.src_step);
  });
  return out;
}

std::uint64_t closed_chunks(const UnitForm& unit) {
  std::uint64_t chunks = 1;
  for (std::size_t d = 0; d < unit.counts.rank(); ++d)
    chunks *= unit.closed[d] ? unit.counts[d] : 1;
  return chunks;
}

// Contiguous source elements that a unit reads at a time.
std::uint64_t contiguous_run(const std::vector<SourceDigit>& digits, const Grid& grid,
                             const UnitForm& unit) {
  std::uint64_t run = 1;
  for (const SourceDigit& item : digits) {
    if (static_cast<std::uint64_t>(std::abs(item.digit.src_step)) != run) break;
    const bool whole = unit.closed[item.axis] || unit.counts[item.axis] <= 1;
    run *= whole ? item.digit.extent : std::min(item.digit.extent, grid.chunk[item.axis]);
    if (!whole) break;
  }
  return run;
}

void close_axes(const Leaf& leaf, const Grid& grid, const Transfer& first, const Limits& limits,
                UnitForm& unit) {
  const std::vector<SourceDigit> digits = digits_fast_first(leaf, first);
  const std::uint64_t row = row_length(first.source_shape);
  for (const SourceDigit& item : digits) {
    if (static_cast<std::uint64_t>(std::abs(item.digit.src_step)) < row)
      unit.closed[item.axis] = true;
  }
  for (const SourceDigit& item : digits) {
    if (unit.closed[item.axis]) continue;
    const std::uint64_t run = contiguous_run(digits, grid, unit);
    if (run * size_bits(first.source_dtype) / 8 >= limits.run_bytes) return;
    const std::uint64_t wider = closed_chunks(unit) * unit.counts[item.axis] * unit.stride_bytes;
    if (wider > limits.merge_bytes) return;
    unit.closed[item.axis] = true;
  }
}

}  // namespace

UnitForm make_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits) {
  UnitForm unit;
  const std::size_t rank = leaf.shape.rank();
  unit.counts = chunk_counts(leaf.shape, grid.chunk);
  unit.closed.assign(rank, false);
  unit.loop.assign(rank, false);
  unit.form = form;
  unit.stride_bytes = round_up(form.stored_bytes(), limits.alignment_bytes);
  const Transfer* first = transfers.empty() ? nullptr : transfers.front();
  if (first != nullptr) {
    const Shape strides = leaf.shape.strides();
    for (const Loop& loop : first->loops) {
      if (loop.extent > 1) unit.loop[axis_of(strides, loop.dst_step)] = true;
    }
    close_axes(leaf, grid, *first, limits, unit);
  }
  for (const std::size_t axis : source_order(leaf, first)) {
    if (!unit.closed[axis] && !unit.loop[axis])
      unit.order.push_back(static_cast<std::uint8_t>(axis));
  }
  unit.chunks_per_unit = closed_chunks(unit);
  unit.units_per_group = 1;
  for (const std::uint8_t axis : unit.order) unit.units_per_group *= unit.counts[axis];
  unit.groups = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (unit.loop[d] && !unit.closed[d]) unit.groups *= unit.counts[d];
  }
  for (const Transfer* transfer : transfers) {
    unit.scratch_bytes =
        std::max(unit.scratch_bytes, band_form(*transfer, leaf.dtype, limits).scratch_bytes());
  }
  unit.scratch_bytes = std::max(unit.scratch_bytes, form.scratch_bytes);
  const std::uint64_t growth = form.cells * form.cell_growth_bytes;
  const std::uint64_t slab =
      limits.slab_bytes + unit.chunks_per_unit * (limits.alignment_bytes + growth);
  if (unit.region_bytes() > slab) {
    throw Error(ErrorCode::limit,
                fmt::format("one source row of this tensor feeds {} of output, more than the {} "
                            "that are held at once",
                            human_bytes(unit.region_bytes()), human_bytes(limits.slab_bytes)))
        .in_tensor(leaf.name)
        .hint("use a mesh with fewer shards for this tensor");
  }
  return unit;
}

Shape unit_origin(const UnitForm& form, std::uint32_t loop_index, std::uint64_t unit) {
  Shape origin;
  const std::size_t rank = form.counts.rank();
  for (std::size_t d = 0; d < rank; ++d) origin.push_back(0);
  std::uint64_t rest = loop_index;
  for (std::size_t d = rank; d-- > 0;) {
    if (!form.loop[d] || form.closed[d]) continue;
    origin[d] = rest % form.counts[d];
    rest /= form.counts[d];
  }
  for (std::size_t k = form.order.size(); k-- > 0;) {
    const std::size_t axis = form.order[k];
    origin[axis] = unit % form.counts[axis];
    unit /= form.counts[axis];
  }
  return origin;
}

Box unit_box(const Leaf& leaf, const Grid& grid, const UnitForm& form, const Shape& origin) {
  Box box;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    const std::uint64_t begin = form.closed[d] ? 0 : origin[d] * grid.chunk[d];
    const std::uint64_t extent =
        form.closed[d] ? leaf.shape[d] : std::min(grid.chunk[d], leaf.shape[d] - begin);
    box.begin.push_back(begin);
    box.extent.push_back(extent);
  }
  return box;
}

ChunkIndex chunk_index(const UnitForm& form, const Shape& chunk) {
  ChunkIndex out;
  for (std::size_t d = 0; d < form.counts.rank(); ++d) {
    if (form.closed[d]) {
      out.position = out.position * form.counts[d] + chunk[d];
    } else if (form.loop[d]) {
      out.loop_index = static_cast<std::uint32_t>(out.loop_index * form.counts[d] + chunk[d]);
    }
  }
  for (const std::uint8_t axis : form.order) out.unit = out.unit * form.counts[axis] + chunk[axis];
  return out;
}

}  // namespace hfshard
