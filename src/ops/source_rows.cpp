#include "ops/source_rows.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "ops/axis_digits.h"

namespace hfshard {
namespace {

std::uint64_t least_parts(std::uint64_t extent, std::uint64_t wanted) {
  for (std::uint64_t parts = wanted; parts < extent; ++parts) {
    if (extent % parts == 0) return parts;
  }
  return extent;
}

// Returns the row of a rule for which its window has at most `most_bytes`. 0 if the row is short
// enough, or can't be shortened.
std::uint32_t short_row(const Leaf& leaf, const Transfer& transfer, std::uint64_t most_bytes) {
  if (transfer.source_shape.rank() < 2) return 0;
  const Shape window = row_window(leaf, transfer);
  const auto closed = std::ranges::find_if(window, [](std::uint64_t span) { return span > 1; });
  if (closed == window.end()) return 0;
  const auto axis = static_cast<std::size_t>(closed - window.begin());
  const Shape strides = leaf.shape.strides();
  const std::uint64_t bytes = packed_bytes(leaf.dtype, window[axis] * strides[axis]);
  if (bytes <= most_bytes) return 0;
  const std::uint64_t row = row_length(transfer.source_shape);
  const std::vector<AxisDigit> digits =
      digits_along(split_at_rows(transfer), strides[axis], leaf.shape[axis]);
  const auto slowest = std::ranges::find_if(digits, [&](const AxisDigit& digit) {
    return digit.extent * static_cast<std::uint64_t>(digit.src_step) == row;  // of a row's digits
  });
  if (slowest == digits.end()) return 0;
  const std::uint64_t parts = least_parts(slowest->extent, ceil_div(bytes, most_bytes));
  const std::uint64_t shorter = row / parts;
  return shorter > UINT32_MAX ? 0 : static_cast<std::uint32_t>(shorter);
}

}  // namespace

std::uint64_t row_length(const Shape& source_shape) {
  if (source_shape.rank() < 2) return std::max<std::uint64_t>(source_shape.numel(), 1);
  return std::max<std::uint64_t>(source_shape[source_shape.rank() - 1], 1);
}

std::uint64_t row_length(const Transfer& transfer) {
  return transfer.row != 0 ? transfer.row : row_length(transfer.source_shape);
}

IndexMap split_at_rows(const IndexMap& map, const Shape& source_shape) {
  return inverse(split_by_axes(inverse(map), source_shape));
}

IndexMap split_at_rows(const Transfer& transfer) {
  if (transfer.row == 0) return split_at_rows(transfer.map, transfer.source_shape);
  Shape rows;  // the last axis split into two
  for (std::size_t d = 0; d + 1 < transfer.source_shape.rank(); ++d)
    rows.push_back(transfer.source_shape[d]);
  rows.push_back(row_length(transfer.source_shape) / transfer.row);
  rows.push_back(transfer.row);
  return split_at_rows(transfer.map, rows);
}

Shape row_window(const Leaf& leaf, const Transfer& transfer) {
  const Shape strides = leaf.shape.strides();
  const auto row = row_length(transfer);
  const IndexMap map = split_at_rows(transfer);
  Shape window;
  for (std::size_t axis = 0; axis < leaf.shape.rank(); ++axis) window.push_back(1);
  if (leaf.shape.numel() == 0) return window;
  for (std::size_t axis = 0; axis < leaf.shape.rank(); ++axis) {
    std::vector<AxisDigit> within = digits_along(map, strides[axis], leaf.shape[axis]);
    std::erase_if(within, [&](const AxisDigit& digit) {
      return static_cast<std::uint64_t>(digit.src_step) >= row;
    });
    const std::uint64_t dense = dense_extent(within);
    window[axis] = dense == 0 ? leaf.shape[axis] : dense;
  }
  close_misplaced(leaf, transfer, window);
  return window;
}

void close_misplaced(const Leaf& leaf, const Transfer& transfer, Shape& window) {
  const Shape strides = leaf.shape.strides();
  const auto close = [&](std::size_t axis, std::uint64_t place) {
    if (place % window[axis] != 0) window[axis] = leaf.shape[axis];
  };
  if (leaf.shape.numel() == 0) return;
  for (std::size_t axis = 0; axis < leaf.shape.rank(); ++axis) {
    const std::uint64_t length = leaf.shape[axis];
    close(axis, transfer.map.dst_base / strides[axis] % length);
    for (const Loop& loop : transfer.loops) {
      const auto step = static_cast<std::uint64_t>(loop.dst_step);
      if (loop.extent > 1 && step >= strides[axis] && step < strides[axis] * length)
        close(axis, step / strides[axis]);
    }
  }
}

void shorten_rows(CompiledModel& model, std::uint64_t most_bytes) {
  for (Transfer& transfer : model.transfers)
    transfer.row = short_row(model.leaves[transfer.target], transfer, most_bytes);
}

}  // namespace hfshard
