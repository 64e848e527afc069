#include <algorithm>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "plan/layout/band.h"
#include "plan/layout/piece_window.h"
#include "plan/layout/unit.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kSlicesOfTile = 4;
constexpr std::uint64_t kTilesOfRows = 2;

// Returns steps for slices that have whole rows of all sources.
Shape rows_window(const Leaf& leaf, std::span<const Transfer* const> transfers) {
  Shape out;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) out.push_back(1);
  for (const Transfer* transfer : transfers)
    out = join_windows(leaf, out, row_window(leaf, *transfer));
  return out;
}

}  // namespace

UnitForm find_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits, const SourcePieces* pieces) {
  const std::size_t rank = leaf.shape.rank();
  UnitForm unit;
  unit.loop.assign(rank, false);
  unit.form = form;
  unit.chunks_per_unit = 1;
  unit.groups = 1;
  for (const Transfer* transfer : transfers) {
    unit.scratch_bytes =
        std::max(unit.scratch_bytes, band_form(*transfer, leaf.dtype, limits).scratch_bytes());
  }
  if (pieces != nullptr) unit.scratch_bytes = std::max(unit.scratch_bytes, pieces->scratch_bytes);
  const bool empty = std::ranges::find(leaf.shape, std::uint64_t{0}) != leaf.shape.end();
  Slices slices;
  slices.extent = whole_chunk(leaf.shape);
  slices.rows = slices.slice_rows = 1;
  slices.row_bytes = empty ? 0 : packed_bytes(leaf.dtype, leaf.shape.numel());
  const Shape rows = rows_window(leaf, transfers);
  const Shape window = pieces == nullptr ? rows : join_windows(leaf, rows, pieces->window);
  // From the front: if one index of an axis is too much, slices take its indices one by one.
  for (std::size_t d = 0; d < rank && !empty; ++d) {
    if (leaf.shape[d] > 1 && rows[d] >= leaf.shape[d]) break;  // a row spans it
    // Transposed sources are read in runs as long as the slice has rows.
    const std::uint64_t most =
        rows[d] > 1 ? limits.merge_bytes * kTilesOfRows : limits.merge_bytes / kSlicesOfTile;
    const std::uint64_t wanted = std::max<std::uint64_t>(most, 1);
    if (slices.row_bytes <= wanted) break;
    slices.rows = leaf.shape[d];
    slices.row_bytes /= slices.rows;
    slices.slice_rows = std::clamp<std::uint64_t>(wanted / slices.row_bytes, 1, slices.rows);
    slices.slice_rows = std::min(round_up(slices.slice_rows, window[d]), slices.rows);
    slices.extent[d] = slices.slice_rows;
    if (window[d] > 1) break;  // no slice may end in a window
  }
  unit.counts = chunk_counts(leaf.shape, slices.extent);
  for (std::size_t d = 0; d < rank; ++d) {
    unit.span.push_back(1);
    unit.order.push_back(static_cast<std::uint8_t>(d));
  }
  unit.units_per_group = empty ? 0 : unit.counts.numel();
  unit.stride_bytes = slices.slice_rows * slices.row_bytes;
  unit.slices = slices;
  return unit;
}

UnitForm make_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits, const SourcePieces* pieces) {
  UnitForm unit = find_sliced_unit(leaf, transfers, form, limits, pieces);
  if (!fits_slab(unit, limits)) {
    throw Error(ErrorCode::limit,
                fmt::format("one source row of this tensor becomes {} of output, and hfshard holds "
                            "at most {} at once",
                            human_bytes(unit.stride_bytes), human_bytes(limits.slab_bytes)))
        .in_tensor(leaf.name);
  }
  return unit;
}

std::uint64_t unit_offset(const UnitForm& form, std::uint64_t unit) noexcept {
  if (!form.slices) return unit * form.region_bytes();
  const Slices& slices = *form.slices;
  const std::uint64_t per_place = ceil_div(slices.rows, slices.slice_rows);
  const std::uint64_t row = unit % per_place * slices.slice_rows;
  return (unit / per_place * slices.rows + row) * slices.row_bytes;
}

std::uint64_t unit_at_offset(const UnitForm& form, std::uint64_t offset) {
  if (!form.slices) {
    HFSHARD_CHECK(offset % form.region_bytes() == 0);
    return offset / form.region_bytes();
  }
  const Slices& slices = *form.slices;
  const std::uint64_t per_place = ceil_div(slices.rows, slices.slice_rows);
  const std::uint64_t row = offset / slices.row_bytes;
  const std::uint64_t unit = row / slices.rows * per_place + row % slices.rows / slices.slice_rows;
  HFSHARD_CHECK(unit_offset(form, unit) == offset);
  return unit;
}

}  // namespace hfshard
