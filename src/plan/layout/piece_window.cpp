#include "plan/layout/piece_window.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checked.h"
#include "ops/axis_digits.h"
#include "ops/source_rows.h"
#include "plan/layout/band.h"
#include "plan/layout/cut_grid.h"

namespace hfshard {
namespace {

// Returns how many consecutive steps of a digit are in a cell of `cell` elements. Empty if cells
// begin and end between its steps.
std::optional<std::uint64_t> steps_in_cell(const AxisDigit& digit, std::uint64_t cell, bool top) {
  const std::uint64_t span = digit.step * digit.extent;
  if (cell % span == 0 || (top && cell >= span)) return digit.extent;
  if (cell <= digit.step)
    return digit.step % cell == 0 ? std::optional<std::uint64_t>(1) : std::nullopt;
  if (cell % digit.step != 0) return std::nullopt;
  const std::uint64_t steps = cell / digit.step;
  if (digit.extent % steps != 0 && !top) return std::nullopt;
  return steps;
}

// Narrows the window along the leaf axes that the digits of one source axis move.
void add_digits(const Leaf& leaf, const std::vector<AxisDigit>& digits, std::uint64_t cell,
                Shape& window) {
  const Shape strides = leaf.shape.strides();
  bool regular = true;
  for (const AxisDigit& digit : digits) {
    regular = regular && steps_in_cell(digit, cell, &digit == &digits.back()).has_value();
  }
  for (const AxisDigit& digit : digits) {
    const std::uint64_t steps =
        regular ? *steps_in_cell(digit, cell, &digit == &digits.back()) : digit.extent;
    if (steps == 1) continue;
    const std::size_t axis = axis_of(strides, digit.src_step);
    const std::uint64_t unit = static_cast<std::uint64_t>(digit.src_step) / strides[axis];
    const std::uint64_t all = digit.extent * unit;
    // Cells that don't divide the digit end where it does. That repeats unless it is the slowest
    // digit of its leaf axis.
    const std::uint64_t wanted =
        digit.extent % steps == 0 || all >= leaf.shape[axis] ? steps * unit : all;
    window[axis] = std::min(std::lcm(window[axis], wanted), leaf.shape[axis]);
  }
}

}  // namespace

std::optional<Shape> piece_window(const Leaf& leaf, const Transfer& transfer, const Grid& pieces) {
  if (transfer.decode) return std::nullopt;
  Shape window;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) window.push_back(1);
  const Shape& shape = transfer.source_shape;
  if (shape.numel() == 0) return window;
  const IndexMap by_source = split_by_axes(inverse(transfer.map), shape);
  for (const Digit& digit : by_source.digits) {
    if (digit.extent > 1 && digit.dst_step == 0) return std::nullopt;  // repeated in the leaf
  }
  const Shape strides = shape.strides();
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const std::uint64_t cell = std::clamp<std::uint64_t>(pieces.inner[axis], 1, shape[axis]);
    if (cell == 1) continue;
    const auto digits = digits_along(by_source, strides[axis], shape[axis]);
    const std::uint64_t covered = dense_extent(digits);
    const std::uint64_t begin = by_source.dst_base / strides[axis] % shape[axis];
    const std::uint64_t end = begin + covered;
    if (covered == 0 || begin % cell != 0 || (end % cell != 0 && end != shape[axis]))
      return std::nullopt;
    add_digits(leaf, digits, cell, window);
  }
  close_misplaced(leaf, transfer, window);
  return window;
}

Shape join_windows(const Leaf& leaf, const Shape& a, const Shape& b) {
  Shape out;
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    const std::uint64_t most = std::max<std::uint64_t>(leaf.shape[d], 1);
    out.push_back(a[d] >= most || b[d] >= most ? most : std::min(std::lcm(a[d], b[d]), most));
  }
  return out;
}

std::uint64_t PieceBands::scratch_bytes() const noexcept {
  return std::max(band_bytes + converted_bytes + reader_bytes, rows_bytes + row_bytes);
}

PieceBands piece_bands(const Transfer& transfer, DType leaf_dtype, const Grid& pieces,
                       std::uint64_t reader_bytes, const Limits& limits) {
  const std::uint64_t in_bits = size_bits(transfer.source_dtype);
  const std::uint64_t out_bits = size_bits(leaf_dtype);
  const auto padded = [](std::uint64_t elements, std::uint64_t bits) {
    return round_up(ceil_div(elements * bits, 8), 64);
  };
  const std::uint64_t most = std::max<std::uint64_t>(limits.segment_bytes * 8 / in_bits, 1);
  const std::uint64_t band = std::min(pieces.inner.numel(), most);
  const std::uint64_t row = row_length(transfer);
  PieceBands out;
  out.band_bytes = padded(band, in_bits);
  if (transfer.converts(leaf_dtype)) out.converted_bytes = padded(band, out_bits);
  out.reader_bytes = reader_bytes;
  out.rows_bytes = padded(std::min(transfer.source_shape.numel(), std::max(row, most)), out_bits);
  out.row_bytes = padded(gathered_row(transfer), out_bits);
  return out;
}

UnpackBands unpack_bands(DType dtype, const Grid& pieces, std::uint64_t reader_bytes,
                         const Limits& limits) {
  const std::uint64_t cell = packed_bytes(dtype, pieces.inner.numel());
  return {round_up(std::min(cell, std::max<std::uint64_t>(limits.segment_bytes, 16)), 64),
          reader_bytes};
}

}  // namespace hfshard
