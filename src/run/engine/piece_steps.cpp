#include "run/engine/piece_steps.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "plan/layout/cut_grid.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool is_empty_box(const Box& box) {
  return std::ranges::any_of(box.extent, [](std::uint64_t extent) { return extent == 0; });
}

Box clip(const Box& box, const Shape& shape) {
  Box out;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    const std::uint64_t begin = std::min(box.begin[d], shape[d]);
    out.begin.push_back(begin);
    out.extent.push_back(std::min(box.begin[d] + box.extent[d], shape[d]) - begin);
  }
  return out;
}

// Makes the bands of one cell that meet a box, in storage order. A band has several steps along one
// axis, and all of the faster axes.
class CellBands {
 public:
  CellBands(Box cell, Box wanted, const std::vector<std::uint8_t>& order, std::uint64_t most)
      : cell_(std::move(cell)), wanted_(std::move(wanted)), order_(order), at_(order.size(), 0) {
    level_ = order_.size();
    while (level_ > 0 && takes_all(order_[level_ - 1]) &&
           faster_ * cell_.extent[order_[level_ - 1]] <= most)
      faster_ *= cell_.extent[order_[--level_]];
    if (level_ > 0) steps_ = std::max<std::uint64_t>(most / faster_, 1);
    for (std::size_t k = 0; k < level_; ++k) at_[k] = first(order_[k]);
  }

  bool next(const Shape& shape, PieceBand& band) {
    if (at_end_) return false;
    band.full = cell_;
    band.elements = faster_;
    position_ = 0;
    for (std::size_t k = 0; k < level_; ++k) {
      const std::size_t axis = order_[k];
      const bool last = k + 1 == level_;
      band.full.begin[axis] += at_[k];
      band.full.extent[axis] = last ? std::min(steps_, end(axis) - at_[k]) : 1;
      band.elements *= band.full.extent[axis];
      position_ = position_ * cell_.extent[axis] + at_[k];
    }
    position_ *= faster_;
    band.clipped = clip(band.full, shape);
    advance();
    return true;
  }
  // Returns the start of the last band in the cell, in elements.
  std::uint64_t position() const noexcept { return position_; }

 private:
  std::uint64_t first(std::size_t axis) const { return wanted_.begin[axis] - cell_.begin[axis]; }
  std::uint64_t end(std::size_t axis) const { return first(axis) + wanted_.extent[axis]; }
  bool takes_all(std::size_t axis) const { return wanted_.extent[axis] == cell_.extent[axis]; }

  void advance() {
    for (std::size_t k = level_; k-- > 0;) {
      at_[k] += k + 1 == level_ ? steps_ : 1;
      if (at_[k] < end(order_[k])) return;
      at_[k] = first(order_[k]);
    }
    at_end_ = true;
  }

  Box cell_;
  Box wanted_;
  const std::vector<std::uint8_t>& order_;
  std::size_t level_ = 0;  // slower axes than a band's
  std::uint64_t faster_ = 1;
  std::uint64_t steps_ = 1;
  std::vector<std::uint64_t> at_;
  std::uint64_t position_ = 0;
  bool at_end_ = false;
};

// Returns the common part of two boxes. The second must not begin before the first.
Box shared_box(const Box& a, const Box& b) {
  Box out;
  for (std::size_t d = 0; d < a.begin.rank(); ++d) {
    const std::uint64_t begin = std::max(a.begin[d], b.begin[d]);
    const std::uint64_t end = std::min(a.begin[d] + a.extent[d], b.begin[d] + b.extent[d]);
    out.begin.push_back(begin);
    out.extent.push_back(end > begin ? end - begin : 0);
  }
  return out;
}

Box cell_box(const Grid& grid, const Shape& piece, const Shape& cell) {
  Box out;
  for (std::size_t d = 0; d < piece.rank(); ++d) {
    out.begin.push_back(piece[d] * grid.chunk[d] + cell[d] * grid.inner[d]);
    out.extent.push_back(grid.inner[d]);
  }
  return out;
}

}  // namespace

std::uint64_t place_in_band(std::uint64_t element, const Shape& strides, const PieceBand& band,
                            const Shape& stored) {
  std::uint64_t out = 0;
  for (std::size_t d = 0; d < strides.rank(); ++d) {
    out += (element / strides[d] - band.full.begin[d]) * stored[d];
    element %= strides[d];
  }
  return out;
}

IndexMap from_band(const IndexMap& by_source, const Shape& strides, const PieceBand& band,
                   const std::vector<std::uint8_t>& order) {
  const Shape stored = stored_strides(band.full.extent, order);
  IndexMap out;
  out.dst_base = by_source.src_base;
  out.src_base = place_in_band(by_source.dst_base, strides, band, stored);
  for (const Digit& digit : by_source.digits) {
    if (digit.extent <= 1) continue;
    const std::size_t axis = axis_of(strides, digit.dst_step);
    const std::uint64_t steps = static_cast<std::uint64_t>(digit.dst_step) / strides[axis];
    out.digits.push_back(
        {digit.extent, static_cast<std::int64_t>(steps * stored[axis]), digit.src_step});
  }
  return out;
}

std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open_stored_pieces(
    const Checkpoint& source, std::uint32_t array, std::span<std::byte> scratch) {
  return [&source, array, scratch](const Shape& piece) {
    return source.open_piece(array, piece, PieceSteps::any, scratch);
  };
}

namespace {

using UseBand = std::function<void(const PieceBand&, std::span<const std::byte>)>;

// Reads the needed cells of a piece, from front to back.
class CellsOfPiece {
 public:
  CellsOfPiece(const PieceWalk& walk, Shape piece, const std::vector<std::uint8_t>& order)
      : walk_(walk), piece_(std::move(piece)), order_(order) {}

  void read(const Shape& cell, const std::function<bool(const Box& clipped)>& wants,
            const UseBand& use) {
    const Box full = cell_box(walk_.grid, piece_, cell);
    const Box clipped = clip(full, walk_.array.shape);
    const Box wanted = walk_.whole_cells ? full : shared_box(full, walk_.box);
    std::uint64_t done = 0;  // elements of the cell
    if (!is_empty_box(clipped) && !is_empty_box(wanted) && wants(clipped)) {
      CellBands bands(full, wanted, order_, walk_.most_elements);
      while (bands.next(walk_.array.shape, band_)) {
        passed_ += bytes_of(bands.position()) - bytes_of(done);
        const auto bytes = walk_.raw.first(bytes_of(band_.elements));
        read(bytes);
        done = bands.position() + band_.elements;
        if (!is_empty_box(band_.clipped)) use(band_, bytes);
      }
    }
    passed_ += bytes_of(walk_.grid.inner.numel()) - bytes_of(done);
  }

 private:
  std::uint64_t bytes_of(std::uint64_t elements) const {
    return packed_bytes(walk_.array.dtype, elements);
  }
  void read(std::span<std::byte> out) {
    if (!reader_) reader_ = walk_.open(piece_);
    if (passed_ > 0) reader_->skip(std::exchange(passed_, 0));
    reader_->read(out);
  }

  const PieceWalk& walk_;
  const Shape piece_;
  const std::vector<std::uint8_t>& order_;
  std::unique_ptr<PieceReader> reader_;
  std::uint64_t passed_ = 0;  // skipped since the last read
  PieceBand band_;
};

}  // namespace

void walk_pieces(const PieceWalk& walk, const std::function<bool(const Box& clipped)>& wants,
                 const UseBand& use) {
  const Grid& grid = walk.grid;
  const std::vector<std::uint8_t> order = storage_order(grid);
  Shape first = walk.array.shape;
  Shape met = walk.array.shape;
  for (std::size_t d = 0; d < met.rank(); ++d) {
    if (walk.box.extent[d] == 0) return;
    first[d] = walk.box.begin[d] / grid.chunk[d];
    met[d] = ceil_div(walk.box.begin[d] + walk.box.extent[d], grid.chunk[d]) - first[d];
  }
  const Shape cells = chunk_counts(grid.chunk, grid.inner);
  for_each_chunk(met, [&](const Shape& offset) {
    Shape piece = offset;
    for (std::size_t d = 0; d < piece.rank(); ++d) piece[d] += first[d];
    CellsOfPiece bands(walk, piece, order);
    for_each_chunk(cells, [&](const Shape& cell) {
      bands.read(cell, wants, use);
      return true;
    });
    return true;
  });
}

}  // namespace hfshard
