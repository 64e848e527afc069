// Maps and boxes of a row-major target. Every digit with a target step belongs to one axis: the one
// with stride <= step < stride * dim. The target coordinate along an axis is its share of dst_base
// plus the sum of its digits. So each axis is cut alone, and the parts of a map are the products of
// its axes' parts.

#include <algorithm>
#include <array>

#include "ops/index_map.h"
#include "ops/index_step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kNoAxis = Shape::kMaxRank;

/// A target shape with the data for finding coordinates.
struct Axes {
  explicit Axes(const Shape& dst_shape) : shape(dst_shape), strides(dst_shape.strides()) {}

  /// Returns the axis of a positive step, or kNoAxis. Axes of extent 1 have no steps.
  std::size_t of_step(std::int64_t step) const noexcept {
    const auto size = static_cast<std::uint64_t>(step);
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] > 1 && size >= strides[axis]) {
        const bool whole = size % strides[axis] == 0 && size / strides[axis] < shape[axis];
        return whole ? axis : kNoAxis;
      }
    }
    return kNoAxis;
  }

  std::int64_t coordinate(std::uint64_t offset, std::size_t axis) const noexcept {
    return static_cast<std::int64_t>(offset / strides[axis] % shape[axis]);
  }

  Shape shape;
  Shape strides;
};

bool has_no_elements(const IndexMap& map, const Shape& shape) noexcept {
  return map.count() == 0 || std::find(shape.begin(), shape.end(), 0U) != shape.end();
}

/// Returns the map without digits of extent 1, and with all target steps >= 0, slow to fast on the
/// target side.
IndexMap ascending(const IndexMap& map) {
  IndexMap out{.src_base = map.src_base, .dst_base = map.dst_base, .digits = {}};
  for (Digit digit : map.digits) {
    if (digit.extent == 1) continue;
    if (digit.dst_step < 0) {
      out.src_base = advance(out.src_base, digit.extent - 1, digit.src_step);
      out.dst_base = advance(out.dst_base, digit.extent - 1, digit.dst_step);
      digit.src_step = -digit.src_step;
      digit.dst_step = -digit.dst_step;
    }
    out.digits.push_back(digit);
  }
  std::stable_sort(out.digits.begin(), out.digits.end(),
                   [](const Digit& a, const Digit& b) { return a.dst_step > b.dst_step; });
  return out;
}

/// Returns the largest minus the smallest coordinate per axis. HFSHARD_CHECKs that no digit leaves
/// its axis.
std::array<std::int64_t, Shape::kMaxRank> checked_spans(const IndexMap& map, const Axes& axes) {
  std::array<std::int64_t, Shape::kMaxRank> spans{};
  for (const Digit& digit : map.digits) {
    if (digit.dst_step == 0) continue;
    const std::size_t axis = axes.of_step(digit.dst_step);
    HFSHARD_CHECK(axis != kNoAxis && digit.extent <= axes.shape[axis]);
    spans[axis] += static_cast<std::int64_t>(digit.extent - 1) *
                   (digit.dst_step / static_cast<std::int64_t>(axes.strides[axis]));
  }
  HFSHARD_CHECK(map.dst_base < axes.shape.numel());
  for (std::size_t axis = 0; axis < axes.shape.rank(); ++axis) {
    HFSHARD_CHECK(axes.coordinate(map.dst_base, axis) + spans[axis] <
                  static_cast<std::int64_t>(axes.shape[axis]));
  }
  return spans;
}

/// Cuts a map into the parts inside a box, axis by axis and digit by digit.
class Cutter {
 public:
  Cutter(const IndexMap& map, const Shape& dst_shape, const Box& box, std::vector<IndexMap>& out)
      : axes_(dst_shape), map_(ascending(map)), box_(box), out_(out) {
    checked_spans(map_, axes_);
    part_.src_base = map_.src_base;
    part_.dst_base = map_.dst_base;
    while (!map_.digits.empty() && map_.digits[map_.digits.size() - 1].dst_step == 0) {
      part_.digits.push_back(map_.digits[map_.digits.size() - 1]);
      map_.digits.erase(map_.digits.size() - 1);
    }
    std::int64_t inner = 0;
    for (std::size_t k = map_.digits.size(); k-- > 0;) {
      const Digit& digit = map_.digits[k];
      axis_[k] = axes_.of_step(digit.dst_step);
      step_[k] = digit.dst_step / static_cast<std::int64_t>(axes_.strides[axis_[k]]);
      if (k + 1 == map_.digits.size() || axis_[k + 1] != axis_[k]) inner = 0;
      inner_span_[k] = inner;
      inner += static_cast<std::int64_t>(digit.extent - 1) * step_[k];
    }
  }

  void run() { enter_axis(0, 0); }

 private:
  void enter_axis(std::size_t axis, std::size_t k) {
    if (axis == axes_.shape.rank()) {
      out_.push_back(part_);
      return;
    }
    const auto begin = static_cast<std::int64_t>(box_.begin[axis]);
    const auto extent = static_cast<std::int64_t>(box_.extent[axis]);
    const std::int64_t base = axes_.coordinate(map_.dst_base, axis);
    cut(axis, k, begin - base, begin + extent - base);
  }

  /// Keeps the part of digits k.. of the axis in [lo, hi), relative to the part's base.
  void cut(std::size_t axis, std::size_t k, std::int64_t lo, std::int64_t hi) {
    if (k == map_.digits.size() || axis_[k] != axis) {
      if (lo <= 0 && 0 < hi) enter_axis(axis + 1, k);
      return;
    }
    const std::int64_t step = step_[k];
    const std::int64_t span = inner_span_[k];
    const auto end = static_cast<std::int64_t>(map_.digits[k].extent);
    const std::int64_t first = std::max<std::int64_t>(0, ceil_div_signed(lo - span, step));
    const std::int64_t last = std::min(end - 1, floor_div(hi - 1, step));
    const std::int64_t body_first = std::max<std::int64_t>(0, ceil_div_signed(lo, step));
    const std::int64_t body_last = std::min(end - 1, floor_div(hi - 1 - span, step));
    for (std::int64_t i = first; i <= last; ++i) {
      if (i == body_first && body_first <= body_last) {
        take(axis, k, i, body_last - body_first + 1, 0, span + 1);
        i = body_last;
      } else {
        take(axis, k, i, 1, lo - i * step, hi - i * step);
      }
    }
  }

  /// Continues with `count` values of digit k from `first`.
  void take(std::size_t axis, std::size_t k, std::int64_t first, std::int64_t count,
            std::int64_t lo, std::int64_t hi) {
    const Digit& digit = map_.digits[k];
    const std::uint64_t src_base = part_.src_base;
    const std::uint64_t dst_base = part_.dst_base;
    part_.src_base = advance(src_base, static_cast<std::uint64_t>(first), digit.src_step);
    part_.dst_base = advance(dst_base, static_cast<std::uint64_t>(first), digit.dst_step);
    if (count > 1) {
      part_.digits.push_back({static_cast<std::uint64_t>(count), digit.src_step, digit.dst_step});
    }
    cut(axis, k + 1, lo, hi);
    if (count > 1) part_.digits.erase(part_.digits.size() - 1);
    part_.src_base = src_base;
    part_.dst_base = dst_base;
  }

  Axes axes_;
  IndexMap map_;
  const Box& box_;
  std::vector<IndexMap>& out_;
  IndexMap part_;
  std::array<std::size_t, DigitList::kMax> axis_{};         ///< of each digit
  std::array<std::int64_t, DigitList::kMax> step_{};        ///< in coordinates of the axis
  std::array<std::int64_t, DigitList::kMax> inner_span_{};  ///< of the faster digits
};

/// Splits one digit at the axes that it crosses, fast to slow.
void split_digit(Digit digit, const Axes& axes, DigitList& out) {
  while (digit.extent > 1 && digit.dst_step != 0) {
    const std::size_t axis = axes.of_step(digit.dst_step);
    if (axis == kNoAxis) {
      throw Error(ErrorCode::internal, "a step of an index map walks along no axis of its target");
    }
    const std::uint64_t room = axes.strides[axis] * axes.shape[axis];
    const auto step = static_cast<std::uint64_t>(digit.dst_step);
    if (digit.extent - 1 < (room + step - 1) / step) break;
    const std::uint64_t inside = room / step;
    if (room % step != 0 || digit.extent % inside != 0) {
      throw Error(ErrorCode::internal, "a digit of an index map straddles an axis of its target");
    }
    out.push_back({inside, digit.src_step, digit.dst_step});
    digit.extent /= inside;
    digit.src_step *= static_cast<std::int64_t>(inside);
    digit.dst_step = static_cast<std::int64_t>(room);
  }
  if (digit.extent > 1) out.push_back(digit);
}

}  // namespace

IndexMap split_by_axes(const IndexMap& map, const Shape& dst_shape) {
  if (has_no_elements(map, dst_shape)) return normalize(map);
  const Axes axes(dst_shape);
  const IndexMap whole = ascending(map);
  IndexMap out{.src_base = whole.src_base, .dst_base = whole.dst_base, .digits = {}};
  for (const Digit& digit : whole.digits) split_digit(digit, axes, out.digits);
  out = ascending(out);
  checked_spans(out, axes);
  return out;
}

void restrict_to(const IndexMap& map, const Shape& dst_shape, const Box& box,
                 std::vector<IndexMap>& out) {
  HFSHARD_CHECK(box.begin.rank() == dst_shape.rank() && box.extent.rank() == dst_shape.rank());
  if (has_no_elements(map, dst_shape)) return;
  Cutter(map, dst_shape, box, out).run();
}

IndexMap rebase_to_box(const IndexMap& map, const Shape& dst_shape, const Box& box) {
  HFSHARD_CHECK(box.begin.rank() == dst_shape.rank() && box.extent.rank() == dst_shape.rank());
  if (has_no_elements(map, dst_shape)) return normalize(map);
  const Axes axes(dst_shape);
  const Shape packed = box.extent.strides();
  IndexMap out = ascending(map);
  const auto spans = checked_spans(out, axes);
  std::uint64_t base = 0;
  for (std::size_t axis = 0; axis < dst_shape.rank(); ++axis) {
    const std::int64_t at =
        axes.coordinate(out.dst_base, axis) - static_cast<std::int64_t>(box.begin[axis]);
    HFSHARD_CHECK(at >= 0 && at + spans[axis] < static_cast<std::int64_t>(box.extent[axis]));
    base += static_cast<std::uint64_t>(at) * packed[axis];
  }
  out.dst_base = base;
  for (Digit& digit : out.digits) {
    if (digit.dst_step == 0) continue;
    const std::size_t axis = axes.of_step(digit.dst_step);
    digit.dst_step = digit.dst_step / static_cast<std::int64_t>(axes.strides[axis]) *
                     static_cast<std::int64_t>(packed[axis]);
  }
  return out;
}

}  // namespace hfshard
