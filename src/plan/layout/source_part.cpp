#include "plan/layout/source_part.h"

#include <algorithm>
#include <vector>

#include "plan/layout/cut_grid.h"

namespace hfshard {
namespace {

struct LoopRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Which indices of a loop reach into the box: coordinates [i * per, i * per + width) of the loop's
// axis, shifted by base.
LoopRange loop_range(const Transfer& transfer, const Loop& loop, const Shape& shape,
                     const Shape& strides, const Box& box) {
  if (loop.extent <= 1) return {0, loop.extent};
  const std::size_t axis = axis_of(strides, loop.dst_step);
  const auto stride = strides[axis];
  const std::uint64_t per = static_cast<std::uint64_t>(loop.dst_step) / stride;
  const std::uint64_t base = transfer.map.dst_base / stride % shape[axis];
  std::uint64_t width = 1;
  const auto add_width = [&](std::uint64_t extent, std::int64_t dst_step) {
    const auto step = static_cast<std::uint64_t>(dst_step);
    if (extent > 1 && step >= stride && step < stride * shape[axis])
      width += (extent - 1) * (step / stride);
  };
  for (const Digit& digit : transfer.map.digits) add_width(digit.extent, digit.dst_step);
  for (const Loop& other : transfer.loops) {
    if (&other != &loop) add_width(other.extent, other.dst_step);
  }
  LoopRange range;
  const std::uint64_t low = box.begin[axis];
  const std::uint64_t high = low + box.extent[axis];
  if (low >= base + width) range.begin = (low - base - width) / per + 1;
  range.end = high > base ? std::min(loop.extent, (high - base - 1) / per + 1) : 0;
  return range;
}

}  // namespace

void for_each_source_part(
    const Transfer& transfer, const IndexMap& map, const Leaf& leaf, const Box& box,
    const std::function<void(std::uint64_t source, const IndexMap& part)>& visit) {
  const Shape strides = leaf.shape.strides();
  std::vector<LoopRange> ranges;
  for (const Loop& loop : transfer.loops) {
    ranges.push_back(loop_range(transfer, loop, leaf.shape, strides, box));
    if (ranges.back().begin >= ranges.back().end) return;
  }
  std::vector<std::uint64_t> at(ranges.size());
  for (std::size_t k = 0; k < ranges.size(); ++k) at[k] = ranges[k].begin;
  std::vector<IndexMap> pieces;
  for (;;) {
    std::uint64_t source = 0;
    IndexMap moved = map;
    for (std::size_t k = 0; k < at.size(); ++k) {
      source = source * transfer.loops[k].extent + at[k];
      moved.dst_base += at[k] * static_cast<std::uint64_t>(transfer.loops[k].dst_step);
    }
    pieces.clear();
    restrict_to(moved, leaf.shape, box, pieces);
    for (const IndexMap& piece : pieces) visit(source, piece);
    std::size_t k = at.size();
    while (k > 0 && ++at[k - 1] == ranges[k - 1].end) {
      --k;
      at[k] = ranges[k].begin;
    }
    if (k == 0) return;
  }
}

}  // namespace hfshard
