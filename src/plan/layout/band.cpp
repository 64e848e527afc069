#include "plan/layout/band.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checked.h"
#include "bytes/local/source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The digits that select the row, slowest first, and those that move in it.
struct Split {
  DigitList outer;
  DigitList inner;
  std::uint64_t inner_span = 1;
};

Split split_digits(const IndexMap& map, std::uint64_t row) {
  Split split;
  for (const Digit& digit : map.digits) {
    const auto step = static_cast<std::uint64_t>(digit.src_step);
    if (digit.extent > 1 && step >= row) {
      split.outer.push_back(digit);
    } else {
      split.inner.push_back(digit);
      split.inner_span += (digit.extent - 1) * step;
    }
  }
  std::stable_sort(split.outer.begin(), split.outer.end(),
                   [](const Digit& a, const Digit& b) { return a.src_step > b.src_step; });
  return split;
}

}  // namespace

bool DigitCounter::advance() noexcept {
  for (std::size_t k = digits_.size(); k-- > 0;) {
    const Digit& digit = digits_[k];
    if (++index_[k] < digit.extent) {
      src_ += static_cast<std::uint64_t>(digit.src_step);
      dst_ += static_cast<std::uint64_t>(digit.dst_step);
      return true;
    }
    index_[k] = 0;
    src_ -= (digit.extent - 1) * static_cast<std::uint64_t>(digit.src_step);
    dst_ -= (digit.extent - 1) * static_cast<std::uint64_t>(digit.dst_step);
  }
  return false;
}

BandCursor::BandCursor(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
                       std::uint64_t gap_elements)
    : at_end_(map.count() == 0), counter_(map.src_base, map.dst_base) {
  if (at_end_) return;
  const Split split = split_digits(map, row);
  const std::size_t count = split.outer.size();
  // Per digit k, for the digits from k on and the row: the elements that they span, and whether all
  // holes are narrow enough.
  std::array<std::uint64_t, DigitList::kMax + 1> span{};
  std::array<bool, DigitList::kMax + 1> dense{};
  span[count] = split.inner_span;
  dense[count] = true;
  for (std::size_t k = count; k-- > 0;) {
    const auto step = static_cast<std::uint64_t>(split.outer[k].src_step);
    span[k] = span[k + 1] + (split.outer[k].extent - 1) * step;
    dense[k] = dense[k + 1] && (step <= span[k + 1] || step - span[k + 1] <= gap_elements);
  }
  std::size_t level = 0;  // of the digit with merged steps
  std::uint64_t turns = 1;
  for (; level < count && !(dense[level] && span[level + 1] <= band_elements); ++level) {
    counter_.push_back(split.outer[level]);
    turns *= split.outer[level].extent;
  }
  has_steps_ = level < count;
  steps_.span_elements = span[has_steps_ ? level + 1 : count];
  if (has_steps_) {
    const Digit& digit = split.outer[level];
    steps_.step_elements = static_cast<std::uint64_t>(digit.src_step);
    steps_.in_all = digit.extent;
    const std::uint64_t fit = 1 + (band_elements - steps_.span_elements) / steps_.step_elements;
    steps_.in_band = std::min(digit.extent, fit);
    const auto in_band = static_cast<std::int64_t>(steps_.in_band);
    counter_.push_back({ceil_div(digit.extent, steps_.in_band), digit.src_step * in_band,
                        digit.dst_step * in_band});
  }
  const std::uint64_t left = steps_.in_all % steps_.in_band;
  elements_ = turns * (steps_.in_all / steps_.in_band * length_of(steps_.in_band) +
                       (left == 0 ? 0 : length_of(left)));
  for (; level < count; ++level) band_.map.digits.push_back(split.outer[level]);
  for (const Digit& digit : split.inner) band_.map.digits.push_back(digit);
}

const Band* BandCursor::next() noexcept {
  if (at_end_) return nullptr;
  const std::uint64_t steps = std::min(steps_.in_band, steps_.in_all - steps_.used);
  steps_.used = (steps_.used + steps) % steps_.in_all;
  band_.begin = counter_.src();
  band_.length = length_of(steps);
  band_.map.src_base = counter_.src();
  band_.map.dst_base = counter_.dst();
  if (has_steps_) band_.map.digits[0].extent = steps;
  at_end_ = !counter_.advance();
  return &band_;
}

RowCursor::RowCursor(const IndexMap& map, std::uint64_t row)
    : at_end_(map.count() == 0), counter_(map.src_base, map.dst_base) {
  if (at_end_) return;
  Split split = split_digits(map, row);
  for (const Digit& digit : split.outer) counter_.push_back(digit);
  part_.digits = std::move(split.inner);
}

const IndexMap* RowCursor::next() noexcept {
  if (at_end_) return nullptr;
  part_.src_base = counter_.src();
  part_.dst_base = counter_.dst();
  at_end_ = !counter_.advance();
  return &part_;
}

IndexMap without_holes(const IndexMap& map, std::uint64_t row) {
  if (map.count() == 0) return map;
  const Split split = split_digits(map, row);
  IndexMap out;
  out.src_base = map.src_base % row;
  out.dst_base = map.dst_base;
  std::uint64_t step = row;
  for (const Digit& digit : split.outer) step *= digit.extent;
  for (const Digit& digit : split.outer) {
    step /= digit.extent;
    out.digits.push_back({digit.extent, static_cast<std::int64_t>(step), digit.dst_step});
  }
  for (const Digit& digit : split.inner) out.digits.push_back(digit);
  return out;
}

std::uint64_t gathered_row(const Transfer& transfer) {
  const std::uint64_t row = row_length(transfer);
  std::uint64_t elements = 1;
  for (const Digit& digit : split_digits(transfer.map, row).inner) elements *= digit.extent;
  return std::max(row, elements);
}

BandForm band_form(const Transfer& transfer, DType leaf_dtype, const Limits& limits) {
  const std::uint64_t in_bits = size_bits(transfer.source_dtype);
  const std::uint64_t out_bits = size_bits(leaf_dtype);
  const auto padded = [](std::uint64_t bits) { return round_up(ceil_div(bits, 8), 64); };
  BandForm out;
  out.row = row_length(transfer);
  out.most = std::max<std::uint64_t>(limits.segment_bytes * 8 / in_bits, 1);
  out.gap = limits.run_bytes * 8 / in_bits;
  const std::uint64_t widest =
      std::min(transfer.source_shape.numel(), std::max(out.row, out.most)) +
      (transfer.decode ? kCodesAround : 0);
  out.raw_bytes = padded(widest * in_bits) + kViewSlackBytes;
  if (transfer.converts(leaf_dtype)) out.converted_bytes = padded(widest * out_bits);
  if (transfer.decode) {
    out.scale_bytes = padded(transfer.decode->most_scale_bytes(widest) * 8);
    out.zero_bytes = padded(most_zero_bytes(transfer.decode->form, widest) * 8);
  }
  out.row_bytes = padded(gathered_row(transfer) * out_bits);
  return out;
}

}  // namespace hfshard
