#include "plan/layout/source_part.h"

#include <algorithm>
#include <utility>

#include "plan/layout/cut_grid.h"

namespace hfshard {

SourcePartCursor::SourcePartCursor(const Transfer& transfer, IndexMap map, const Leaf& leaf,
                                   Box box)
    : transfer_(transfer), leaf_(leaf), map_(std::move(map)), box_(std::move(box)) {
  const Shape strides = leaf.shape.strides();
  for (const Loop& loop : transfer.loops) {
    ranges_.push_back(range_of(loop, strides));
    at_.push_back(ranges_.back().begin);
    at_end_ = at_end_ || ranges_.back().begin >= ranges_.back().end;
  }
}

// Returns the indices of a loop that reach into the box: coordinates [i * per, i * per + width) of
// the loop's axis, shifted by base.
SourcePartCursor::LoopRange SourcePartCursor::range_of(const Loop& loop,
                                                       const Shape& strides) const {
  if (loop.extent <= 1) return {0, loop.extent};
  const Shape& shape = leaf_.shape;
  const std::size_t axis = axis_of(strides, loop.dst_step);
  const auto stride = strides[axis];
  const std::uint64_t per = static_cast<std::uint64_t>(loop.dst_step) / stride;
  const std::uint64_t base = transfer_.map.dst_base / stride % shape[axis];
  std::uint64_t width = 1;
  const auto add_width = [&](std::uint64_t extent, std::int64_t dst_step) {
    const auto step = static_cast<std::uint64_t>(dst_step);
    if (extent > 1 && step >= stride && step < stride * shape[axis])
      width += (extent - 1) * (step / stride);
  };
  for (const Digit& digit : transfer_.map.digits) add_width(digit.extent, digit.dst_step);
  for (const Loop& other : transfer_.loops) {
    if (&other != &loop) add_width(other.extent, other.dst_step);
  }
  LoopRange range;
  const std::uint64_t low = box_.begin[axis];
  const std::uint64_t high = low + box_.extent[axis];
  if (low >= base + width) range.begin = (low - base - width) / per + 1;
  range.end = high > base ? std::min(loop.extent, (high - base - 1) / per + 1) : 0;
  return range;
}

// Moves to the next combination of loop indices. Returns false after the last.
bool SourcePartCursor::advance() {
  for (std::size_t k = at_.size(); k-- > 0;) {
    if (++at_[k] != ranges_[k].end) return true;
    at_[k] = ranges_[k].begin;
  }
  return false;
}

const SourcePart* SourcePartCursor::next() {
  while (used_ == pieces_.size()) {
    if (at_end_) return nullptr;
    IndexMap moved = map_;
    part_.source = 0;
    for (std::size_t k = 0; k < at_.size(); ++k) {
      part_.source = part_.source * transfer_.loops[k].extent + at_[k];
      moved.dst_base += at_[k] * static_cast<std::uint64_t>(transfer_.loops[k].dst_step);
    }
    pieces_.clear();
    restrict_to(moved, leaf_.shape, box_, pieces_);
    used_ = 0;
    at_end_ = !advance();
  }
  part_.map = std::move(pieces_[used_++]);
  return &part_;
}

}  // namespace hfshard
