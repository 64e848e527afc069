#include "catalog/grid.h"

#include <algorithm>
#include <numeric>

#include "base/checked.h"

namespace hfshard {

Shape whole_chunk(const Shape& shape) {
  Shape chunk;
  for (const std::uint64_t extent : shape) chunk.push_back(std::max<std::uint64_t>(extent, 1));
  return chunk;
}

Shape chunk_counts(const Shape& shape, const Shape& chunk) {
  Shape counts;
  for (std::size_t d = 0; d < shape.rank(); ++d) counts.push_back(ceil_div(shape[d], chunk[d]));
  return counts;
}

std::vector<std::uint8_t> storage_order(const Grid& grid) {
  if (!grid.order.empty()) return grid.order;
  std::vector<std::uint8_t> out(grid.inner.rank());
  std::iota(out.begin(), out.end(), std::uint8_t{0});
  return out;
}

Shape stored_strides(const Shape& extent, const std::vector<std::uint8_t>& order) {
  if (order.empty()) return extent.strides();
  Shape out = extent;
  std::uint64_t stride = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    out[order[k]] = stride;
    stride *= extent[order[k]];
  }
  return out;
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

}  // namespace hfshard
