#include "catalog/grid.h"

#include <algorithm>

#include "base/checked.h"

namespace hfshard {

Shape chunk_counts(const Shape& shape, const Shape& chunk) {
  Shape counts;
  for (std::size_t d = 0; d < shape.rank(); ++d) counts.push_back(ceil_div(shape[d], chunk[d]));
  return counts;
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
