#include "plan/layout/band.h"

#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "bytes/source.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Digits that pick the row, slowest first, and those that move within it.
struct Split {
  std::vector<Digit> outer;
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
  std::ranges::stable_sort(split.outer,
                           [](const Digit& a, const Digit& b) { return a.src_step > b.src_step; });
  return split;
}

class BandCutter {
 public:
  BandCutter(const Split& split, std::uint64_t band, std::uint64_t gap,
             const std::function<void(const Band&)>& visit)
      : split_(split), band_(band), visit_(visit) {
    // span_[k] and dense_[k]: of the digits from level k on, together with the row.
    span_.assign(split.outer.size() + 1, split.inner_span);
    dense_.assign(split.outer.size() + 1, true);
    for (std::size_t k = split.outer.size(); k-- > 0;) {
      const auto step = static_cast<std::uint64_t>(split.outer[k].src_step);
      span_[k] = span_[k + 1] + (split.outer[k].extent - 1) * step;
      dense_[k] = dense_[k + 1] && (step <= span_[k + 1] || step - span_[k + 1] <= gap);
    }
  }

  // Elements in all bands from a level on: they are the same wherever it begins.
  std::uint64_t elements(std::size_t level) const {
    if (is_one_band(level)) return span_[level];
    const Digit& digit = split_.outer[level];
    const auto step = static_cast<std::uint64_t>(digit.src_step);
    const std::uint64_t rest = span_[level + 1];
    if (!in_blocks(level)) return digit.extent * elements(level + 1);
    const std::uint64_t take = block_of(level);
    const std::uint64_t left = digit.extent % take;
    const std::uint64_t last = left == 0 ? 0 : rest + (left - 1) * step;
    return digit.extent / take * (rest + (take - 1) * step) + last;
  }

  void cut(std::size_t level, std::uint64_t src, std::uint64_t dst) const {
    if (is_one_band(level)) {
      emit(level, level < split_.outer.size() ? split_.outer[level].extent : 1, src, dst);
      return;
    }
    const Digit& digit = split_.outer[level];
    const auto step = static_cast<std::uint64_t>(digit.src_step);
    const bool blocks = in_blocks(level);
    const std::uint64_t take = blocks ? block_of(level) : 1;
    for (std::uint64_t i = 0; i < digit.extent; i += take) {
      const std::uint64_t at = src + i * step;
      const std::uint64_t to = dst + i * static_cast<std::uint64_t>(digit.dst_step);
      if (blocks) {
        emit(level, std::min(take, digit.extent - i), at, to);
      } else {
        cut(level + 1, at, to);
      }
    }
  }

 private:
  bool is_one_band(std::size_t level) const {
    return level == split_.outer.size() || (dense_[level] && span_[level] <= band_);
  }
  // Whether bands are runs of steps of this digit, and of how many.
  bool in_blocks(std::size_t level) const { return dense_[level] && span_[level + 1] <= band_; }
  std::uint64_t block_of(std::size_t level) const {
    const auto step = static_cast<std::uint64_t>(split_.outer[level].src_step);
    return 1 + (band_ - span_[level + 1]) / step;
  }

  // One band: `extent` steps of digit `level` and all digits below it.
  void emit(std::size_t level, std::uint64_t extent, std::uint64_t src, std::uint64_t dst) const {
    Band band;
    band.begin = src;
    band.length = span_[std::min(level + 1, split_.outer.size())];
    band.map.src_base = src;
    band.map.dst_base = dst;
    for (std::size_t k = level; k < split_.outer.size(); ++k) {
      Digit digit = split_.outer[k];
      if (k == level) {
        digit.extent = extent;
        band.length += (extent - 1) * static_cast<std::uint64_t>(digit.src_step);
      }
      band.map.digits.push_back(digit);
    }
    for (const Digit& digit : split_.inner) band.map.digits.push_back(digit);
    visit_(band);
  }

  const Split& split_;
  std::uint64_t band_;
  const std::function<void(const Band&)>& visit_;
  std::vector<std::uint64_t> span_;
  std::vector<bool> dense_;
};

}  // namespace

std::uint64_t row_length(const Shape& source_shape) {
  if (source_shape.rank() < 2) return std::max<std::uint64_t>(source_shape.numel(), 1);
  return std::max<std::uint64_t>(source_shape[source_shape.rank() - 1], 1);
}

IndexMap split_at_rows(const IndexMap& map, const Shape& source_shape) {
  return inverse(split_by_axes(inverse(map), source_shape));
}

void for_each_band(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
                   std::uint64_t gap_elements, const std::function<void(const Band&)>& visit) {
  if (map.count() == 0) return;
  const Split split = split_digits(map, row);
  BandCutter(split, band_elements, gap_elements, visit).cut(0, map.src_base, map.dst_base);
}

std::uint64_t banded_elements(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
                              std::uint64_t gap_elements) {
  if (map.count() == 0) return 0;
  const Split split = split_digits(map, row);
  const std::function<void(const Band&)> none;
  return BandCutter(split, band_elements, gap_elements, none).elements(0);
}

std::uint64_t largest_band(std::uint64_t numel, std::uint64_t row, std::uint64_t band_elements) {
  return std::min(numel, std::max(row, band_elements));
}

BandForm band_form(const Transfer& transfer, DType leaf_dtype, const Limits& limits) {
  const std::uint64_t in_bits = size_bits(transfer.source_dtype);
  const std::uint64_t out_bits = size_bits(leaf_dtype);
  const auto padded = [](std::uint64_t bits) { return round_up(ceil_div(bits, 8), 64); };
  BandForm out;
  out.row = row_length(transfer.source_shape);
  out.most = std::max<std::uint64_t>(limits.segment_bytes * 8 / in_bits, 1);
  out.gap = limits.run_bytes * 8 / in_bits;
  const std::uint64_t widest = largest_band(transfer.source_shape.numel(), out.row, out.most) +
                               (transfer.decode ? kCodesAround : 0);
  out.raw_bytes = padded(widest * in_bits) + kViewSlackBytes;
  if (transfer.converts(leaf_dtype)) out.converted_bytes = padded(widest * out_bits);
  if (transfer.decode) out.scale_bytes = padded(transfer.decode->most_scale_bytes(widest) * 8);
  out.row_bytes = padded(out.row * out_bits);
  return out;
}

void for_each_row(const IndexMap& map, std::uint64_t row,
                  const std::function<void(const IndexMap& part)>& visit) {
  if (map.count() == 0) return;
  const Split split = split_digits(map, row);
  std::vector<std::uint64_t> index(split.outer.size(), 0);
  IndexMap part;
  part.digits = split.inner;
  for (;;) {
    part.src_base = map.src_base;
    part.dst_base = map.dst_base;
    for (std::size_t k = 0; k < index.size(); ++k) {
      part.src_base += index[k] * static_cast<std::uint64_t>(split.outer[k].src_step);
      part.dst_base += index[k] * static_cast<std::uint64_t>(split.outer[k].dst_step);
    }
    visit(part);
    std::size_t k = index.size();
    while (k > 0 && ++index[k - 1] == split.outer[k - 1].extent) index[--k] = 0;
    if (k == 0) return;
  }
}

}  // namespace hfshard
