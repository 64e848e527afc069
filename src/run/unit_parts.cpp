#include "run/unit_parts.h"

#include <algorithm>
#include <array>

#include "base/digest.h"
#include "ops/move.h"
#include "plan/band.h"

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

void parts_of_transfer(const Plan& plan, std::uint32_t index, const Leaf& leaf, const Box& box,
                       const std::function<void(const UnitPart&)>& visit) {
  const Transfer& transfer = plan.model.transfers[index];
  const Shape strides = leaf.shape.strides();
  std::vector<LoopRange> ranges;
  for (const Loop& loop : transfer.loops) {
    ranges.push_back(loop_range(transfer, loop, leaf.shape, strides, box));
    if (ranges.back().begin >= ranges.back().end) return;
  }
  const IndexMap split = split_at_rows(transfer.map, transfer.source_shape);
  std::vector<std::uint64_t> at(ranges.size());
  for (std::size_t k = 0; k < ranges.size(); ++k) at[k] = ranges[k].begin;
  std::vector<IndexMap> pieces;
  for (;;) {
    UnitPart part;
    part.transfer = index;
    IndexMap moved = split;
    for (std::size_t k = 0; k < at.size(); ++k) {
      part.source = part.source * transfer.loops[k].extent + at[k];
      moved.dst_base += at[k] * static_cast<std::uint64_t>(transfer.loops[k].dst_step);
    }
    pieces.clear();
    restrict_to(moved, leaf.shape, box, pieces);
    for (const IndexMap& piece : pieces) {
      part.map = piece;
      visit(part);
    }
    std::size_t k = at.size();
    while (k > 0 && ++at[k - 1] == ranges[k - 1].end) {
      --k;
      at[k] = ranges[k].begin;
    }
    if (k == 0) return;
  }
}

bool whole_row(const IndexMap& part, std::uint64_t row) {
  const IndexMap merged = normalize(part);
  if (row == 1) return part.count() == 1;
  return merged.digits.size() == 1 && merged.digits[0].extent == row &&
         merged.digits[0].src_step == 1;
}

// The row's elements in source order, packed.
IndexMap gather_map(const IndexMap& part, std::uint64_t band_begin) {
  IndexMap out;
  out.src_base = part.src_base - band_begin;
  std::array<Digit, DigitList::kMax> digits;
  std::size_t count = 0;
  for (const Digit& digit : part.digits) {
    if (digit.extent > 1) digits[count++] = digit;
  }
  std::stable_sort(digits.begin(), digits.begin() + static_cast<std::ptrdiff_t>(count),
                   [](const Digit& a, const Digit& b) { return a.src_step < b.src_step; });
  std::uint64_t packed = 1;
  for (std::size_t k = 0; k < count; ++k) {
    digits[k].dst_step = static_cast<std::int64_t>(packed);
    packed *= digits[k].extent;
  }
  while (count > 0) out.digits.push_back(digits[--count]);
  return out;
}

}  // namespace

void for_each_part(const Plan& plan, const UnitRef& ref,
                   const std::function<void(const UnitPart&)>& visit) {
  const Group& group = plan.group_of(ref);
  const Leaf& leaf = plan.model.leaves[group.leaf];
  const UnitForm& form = plan.units[group.leaf];
  const Shape origin = unit_origin(form, group.loop_index, ref.unit);
  const Box box = unit_box(leaf, plan.grids[group.leaf], form, origin);
  for (const std::uint32_t transfer : plan.transfers_of(group.leaf)) {
    parts_of_transfer(plan, transfer, leaf, box, visit);
  }
}

RowHasher::RowHasher(const Transfer& transfer, DType target_dtype)
    : row_(row_length(transfer.source_shape)),
      element_bytes_(size_bits(target_dtype) / 8),
      one_d_(transfer.source_shape.rank() < 2) {}

void RowHasher::add_block(std::uint64_t block, std::span<const std::byte> row,
                          Digest128& sum) const {
  if (!one_d_) {
    sum += hash_block(block, row);
    return;
  }
  for (std::size_t at = 0; at < row.size(); at += kDigestRunBytes) {
    const std::size_t size = std::min<std::size_t>(kDigestRunBytes, row.size() - at);
    sum += hash_block(block + at / element_bytes_, row.subspan(at, size));
  }
}

void RowHasher::add(const IndexMap& map, std::uint64_t band_begin, std::span<const std::byte> bytes,
                    std::span<std::byte> row_scratch, Digest128& sum) const {
  bool first = true;
  bool whole = false;
  for_each_row(map, row_, [&](const IndexMap& part) {
    if (first) whole = whole_row(part, row_);
    first = false;
    const std::uint64_t at = (part.src_base - band_begin) * element_bytes_;
    if (whole) {
      add_block(part.src_base, bytes.subspan(at, row_ * element_bytes_), sum);
      return;
    }
    const std::uint64_t size = part.count() * element_bytes_;
    move_elements(gather_map(part, band_begin), element_bytes_, bytes, row_scratch.first(size));
    add_block(part.src_base, row_scratch.first(size), sum);
  });
}

}  // namespace hfshard
