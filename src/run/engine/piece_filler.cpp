#include "run/engine/piece_filler.h"

#include "base/bools.h"
#include "ops/value.h"
#include "plan/layout/band.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/piece_window.h"
#include "run/engine/piece_steps.h"
#include "run/engine/region_rows.h"
#include "run/engine/row_hasher.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the smallest box with the array elements that a map leads to. No digit of `by_source` may
// span two axes.
Box image_box(const IndexMap& by_source, const Shape& shape) {
  const Shape strides = shape.strides();
  Box out;
  std::uint64_t rest = by_source.dst_base;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    out.begin.push_back(rest / strides[d]);
    out.extent.push_back(1);
    rest %= strides[d];
  }
  for (const Digit& digit : by_source.digits) {
    if (digit.extent <= 1) continue;
    const std::size_t axis = axis_of(strides, digit.dst_step);
    out.extent[axis] +=
        (digit.extent - 1) * (static_cast<std::uint64_t>(digit.dst_step) / strides[axis]);
  }
  return out;
}

// Reads an unpacked piece from its file.
class UnpackedPiece final : public PieceReader {
 public:
  UnpackedPiece(const SourceFile& file, std::uint64_t begin_bytes)
      : file_(file), at_bytes_(begin_bytes) {}
  void read(std::span<std::byte> out) override {
    file_.read_at(at_bytes_, out);
    at_bytes_ += out.size();
  }
  void skip(std::uint64_t bytes) override { at_bytes_ += bytes; }

 private:
  const SourceFile& file_;
  std::uint64_t at_bytes_;
};

// Hashes the rows of a source from its bands, if those have whole rows.
class BandRows {
 public:
  BandRows(const Transfer& transfer, DType leaf_dtype, const Grid& grid, const IndexMap& map,
           std::uint64_t last_elements, std::uint64_t most_elements)
      : hasher_(transfer, leaf_dtype),
        strides_(transfer.source_shape.strides()),
        order_(grid.order),
        row_(row_length(transfer)),
        element_bytes_(size_bits(leaf_dtype) / 8) {
    const std::size_t rank = transfer.source_shape.rank();
    if (rank < 2) return;
    const std::size_t last = rank - 1;
    const std::uint64_t length = transfer.source_shape[last];
    const bool whole = grid.inner[last] >= length || grid.inner[last] % row_ == 0;
    takes_ = whole && last_elements <= most_elements && (order_.empty() || order_.back() == last) &&
             hasher_.takes_whole_rows(map);
  }
  /// If false, don't add rows.
  bool takes() const noexcept { return takes_; }
  /// `part` maps the leaf to elements of the band in the source. `values` are those of the band.
  void add(const IndexMap& part, const PieceBand& band, std::span<const std::byte> values,
           Digest128& sum) const {
    const Shape stored = stored_strides(band.full.extent, order_);
    RowCursor rows(inverse(part), row_);
    while (const IndexMap* row = rows.next()) {
      const std::uint64_t at = place_in_band(row->src_base, strides_, band, stored);
      hasher_.add_row(row->src_base, values.subspan(at * element_bytes_, row_ * element_bytes_),
                      sum);
    }
  }

 private:
  RowHasher hasher_;
  Shape strides_;
  const std::vector<std::uint8_t>& order_;
  std::uint64_t row_;
  std::size_t element_bytes_;
  bool takes_ = false;
};

}  // namespace

std::function<std::unique_ptr<PieceReader>(const Shape& piece)> PieceFiller::open_unpacked(
    const UnpackedForm& form, const Transfer& transfer) const {
  const TensorInfo& info = layout_.catalog().tensors[form.array];
  const auto part = static_cast<std::uint32_t>(form.part_of(info.shape, transfer.map.src_base));
  const SourceFile& file = sources_.file(layout_.place_of(form.array).file + part);
  return [&form, &file, &info](const Shape& piece) {
    const std::uint64_t begin = form.piece_begin(info.shape, piece);
    return std::make_unique<UnpackedPiece>(file, packed_bytes(info.dtype, begin));
  };
}

std::uint64_t PieceFiller::fill(const UnitRef& ref, const UnitPart& part,
                                const std::vector<Cell>& cells, std::span<std::byte> region,
                                std::span<std::byte> scratch, Digest128* sum) const {
  const std::uint32_t index = layout_.group_of(ref).leaf;
  const Leaf& leaf = layout_.model().leaves[index];
  const Transfer& transfer = layout_.model().transfers[part.transfer];
  const std::uint32_t array = transfer.sources[part.source];
  const Checkpoint& source = layout_.model().source();
  const UnpackedForm* const unpacked = find_form(layout_.unpacked(), array);
  const Grid grid = unpacked != nullptr ? unpacked->grid : layout_.catalog().grid_of(array);
  const std::uint64_t reader_bytes =
      unpacked != nullptr ? 0 : source.scratch_bytes(array, PieceSteps::any);
  const PieceBands bands = piece_bands(transfer, leaf.dtype, grid, reader_bytes, layout_.limits());
  HFSHARD_CHECK(bands.scratch_bytes() <= scratch.size());  // the plan counted it
  const Shape& shape = transfer.source_shape;
  const Shape strides = shape.strides();
  const IndexMap by_source = split_by_axes(inverse(part.map), shape);
  const auto converted = scratch.subspan(bands.band_bytes, bands.converted_bytes);
  const auto readers = scratch.subspan(bands.band_bytes + bands.converted_bytes, reader_bytes);
  PieceWalk walk{layout_.catalog().tensors[array], grid};
  walk.open = unpacked != nullptr ? open_unpacked(*unpacked, transfer)
                                  : open_stored_pieces(source, array, readers);
  walk.whole_cells = !layout_.split().has(array);
  walk.box = image_box(by_source, shape);
  walk.most_elements = bands.band_bytes * 8 / size_bits(transfer.source_dtype);
  walk.raw = scratch.first(bands.band_bytes);
  // The least that a band has along the last axis.
  const std::size_t rank = shape.rank();
  const std::uint64_t cell = rank == 0 ? 1 : grid.inner[rank - 1];
  const std::uint64_t last =
      walk.whole_cells || rank == 0 ? cell : std::min(cell, walk.box.extent[rank - 1]);
  const BandRows rows(transfer, leaf.dtype, grid, part.map, last, walk.most_elements);
  std::uint64_t overflows = 0;
  std::vector<IndexMap> in_band;
  std::vector<IndexMap> in_cell;
  const auto wants = [&](const Box& clipped) {
    in_band.clear();
    restrict_to(by_source, shape, clipped, in_band);
    return !in_band.empty();
  };
  const auto use = [&](const PieceBand& band, std::span<const std::byte> bytes) {
    if (!wants(band.clipped)) return;
    std::span<const std::byte> values = bytes;
    if (transfer.converts(leaf.dtype)) {
      const auto out = converted.first(band.elements * size_bits(leaf.dtype) / 8);
      overflows +=
          apply_value(transfer.value, transfer.source_dtype, leaf.dtype, band.elements, bytes, out);
      values = out;
    }
    if (leaf.dtype == DType::boolean) check_bools(values);
    for (const IndexMap& map : in_band) {
      if (sum != nullptr && rows.takes()) rows.add(map, band, values, *sum);
      scatter(leaf, cells, from_band(map, strides, band, grid.order), values, region, in_cell);
    }
  };
  try {
    const StageSpan span(meter_, Busy::read);
    walk_pieces(walk, wants, use);
  } catch (Error& error) {  // it doesn't know the rule, and its values have no name
    error.in_tensor(layout_.catalog().tensors[array].name);
    throw error.by_rule(layout_.model().rules[transfer.rule]);
  }
  if (sum != nullptr && !rows.takes()) {
    hash_region_rows(layout_, ref, part, cells, region, scratch.first(bands.rows_bytes),
                     scratch.subspan(bands.rows_bytes, bands.row_bytes), *sum);
  }
  return overflows;
}

}  // namespace hfshard
