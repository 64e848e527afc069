#include "plan/layout/unit.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "plan/layout/band.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The digits of the first map, fastest in the source first, each with its leaf axis.
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

std::uint64_t unit_chunk_count(const UnitForm& unit) {
  std::uint64_t chunks = 1;
  for (const std::uint64_t span : unit.span) chunks *= span;
  return chunks;
}

// Returns the contiguous source elements that a unit reads at a time.
std::uint64_t contiguous_run(const std::vector<SourceDigit>& digits, const Grid& grid,
                             const UnitForm& unit) {
  std::uint64_t run = 1;
  for (const SourceDigit& item : digits) {
    if (static_cast<std::uint64_t>(std::abs(item.digit.src_step)) != run) break;
    const bool whole = unit.closed(item.axis) || unit.counts[item.axis] <= 1;
    run *= whole ? item.digit.extent : std::min(item.digit.extent, grid.chunk[item.axis]);
    if (!whole) break;
  }
  return run;
}

// Closes the axes that a row of the first source spans. Returns its digits.
std::vector<SourceDigit> close_rows(const Leaf& leaf, const Transfer& first, UnitForm& unit) {
  std::vector<SourceDigit> digits = digits_fast_first(leaf, first);
  const std::uint64_t row = row_length(first);
  for (const SourceDigit& item : digits) {
    if (static_cast<std::uint64_t>(std::abs(item.digit.src_step)) < row)
      unit.span[item.axis] = unit.counts[item.axis];
  }
  return digits;
}

// Closes further axes while the runs that are read at a time are too short.
void close_short_runs(const Grid& grid, const Transfer& first,
                      const std::vector<SourceDigit>& digits, const Limits& limits,
                      UnitForm& unit) {
  for (const SourceDigit& item : digits) {
    if (unit.closed(item.axis)) continue;
    const std::uint64_t run = contiguous_run(digits, grid, unit);
    if (run * size_bits(first.source_dtype) / 8 >= limits.run_bytes) return;
    const std::uint64_t wider = unit_chunk_count(unit) * unit.counts[item.axis] * unit.stride_bytes;
    if (wider > limits.merge_bytes) return;
    unit.span[item.axis] = unit.counts[item.axis];
  }
}

// Returns the fewest chunks that end at a window and divide the axis.
std::uint64_t span_of_window(std::uint64_t counts, std::uint64_t chunk, std::uint64_t window) {
  const std::uint64_t least = window / std::gcd(window, chunk);
  for (std::uint64_t span = least; span < counts; span += least) {
    if (counts % span == 0) return span;
  }
  return counts;
}

void span_windows(const Leaf& leaf, const Grid& grid, const Shape& window, UnitForm& unit) {
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    if (unit.closed(d)) continue;
    unit.span[d] = window[d] >= leaf.shape[d]
                       ? unit.counts[d]
                       : span_of_window(unit.counts[d], grid.chunk[d], window[d]);
  }
}

}  // namespace

UnitForm find_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces) {
  UnitForm unit;
  const std::size_t rank = leaf.shape.rank();
  unit.counts = chunk_counts(leaf.shape, grid.chunk);
  for (std::size_t d = 0; d < rank; ++d) unit.span.push_back(1);
  unit.loop.assign(rank, false);
  unit.form = form;
  unit.stride_bytes = round_up(form.stored_bytes(), limits.alignment_bytes);
  const Transfer* first = transfers.empty() ? nullptr : transfers.front();
  if (first != nullptr) {
    const Shape strides = leaf.shape.strides();
    for (const Loop& loop : first->loops) {
      if (loop.extent > 1) unit.loop[axis_of(strides, loop.dst_step)] = true;
    }
    if (pieces == nullptr || pieces->whole_rows) {
      const std::vector<SourceDigit> digits = close_rows(leaf, *first, unit);
      if (pieces == nullptr) close_short_runs(grid, *first, digits, limits, unit);
    }
  }
  if (pieces != nullptr) {
    span_windows(leaf, grid, pieces->window, unit);
    unit.scratch_bytes = pieces->scratch_bytes;
  }
  for (const std::size_t axis : source_order(leaf, first)) {
    if (!unit.closed(axis) && !unit.loop[axis])
      unit.order.push_back(static_cast<std::uint8_t>(axis));
  }
  unit.chunks_per_unit = unit_chunk_count(unit);
  unit.units_per_group = 1;
  for (const std::uint8_t axis : unit.order) unit.units_per_group *= unit.units(axis);
  unit.groups = 1;
  for (std::size_t d = 0; d < rank; ++d) {
    if (unit.loop[d]) unit.groups *= unit.units(d);
  }
  for (const Transfer* transfer : transfers) {
    unit.scratch_bytes =
        std::max(unit.scratch_bytes, band_form(*transfer, leaf.dtype, limits).scratch_bytes());
  }
  unit.scratch_bytes = std::max(unit.scratch_bytes, form.scratch_bytes);
  return unit;
}

bool fits_slab(const UnitForm& unit, const Limits& limits) noexcept {
  if (unit.slices) return unit.stride_bytes <= limits.slab_bytes;
  const std::uint64_t growth = unit.form.cells * unit.form.cell_growth_bytes;
  const std::uint64_t slab =
      limits.slab_bytes + unit.chunks_per_unit * (limits.alignment_bytes + growth);
  return unit.region_bytes() <= slab;
}

UnitForm make_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces) {
  UnitForm unit = find_unit_form(leaf, grid, transfers, form, limits, pieces);
  if (!fits_slab(unit, limits)) {
    throw Error(ErrorCode::limit,
                fmt::format("one source row of this tensor becomes {} of output, and hfshard holds "
                            "at most {} at once",
                            human_bytes(unit.region_bytes()), human_bytes(limits.slab_bytes)))
        .in_tensor(leaf.name)
        .hint("pass a mesh with fewer shards for this tensor");
  }
  return unit;
}

Shape unit_origin(const UnitForm& form, std::uint32_t loop_index, std::uint64_t unit) {
  Shape origin;
  const std::size_t rank = form.counts.rank();
  for (std::size_t d = 0; d < rank; ++d) origin.push_back(0);
  std::uint64_t rest = loop_index;
  for (std::size_t d = rank; d-- > 0;) {
    if (!form.loop[d]) continue;
    origin[d] = rest % form.units(d) * form.span[d];
    rest /= form.units(d);
  }
  for (std::size_t k = form.order.size(); k-- > 0;) {
    const std::size_t axis = form.order[k];
    origin[axis] = unit % form.units(axis) * form.span[axis];
    unit /= form.units(axis);
  }
  return origin;
}

Box unit_box(const Leaf& leaf, const Grid& grid, const UnitForm& form, const Shape& origin) {
  Box box;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    const std::uint64_t step = form.slices ? form.slices->extent[d] : grid.chunk[d];
    const std::uint64_t begin = origin[d] * step;
    const std::uint64_t extent = std::min(form.span[d] * step, leaf.shape[d] - begin);
    box.begin.push_back(begin);
    box.extent.push_back(extent);
  }
  return box;
}

ChunkIndex chunk_index(const UnitForm& form, const Shape& chunk) {
  ChunkIndex out;
  for (std::size_t d = 0; d < form.counts.rank(); ++d) {
    out.position = out.position * form.span[d] + chunk[d] % form.span[d];
    if (form.loop[d]) {
      const std::uint64_t unit = chunk[d] / form.span[d];
      out.loop_index = static_cast<std::uint32_t>(out.loop_index * form.units(d) + unit);
    }
  }
  for (const std::uint8_t axis : form.order)
    out.unit = out.unit * form.units(axis) + chunk[axis] / form.span[axis];
  return out;
}

}  // namespace hfshard
