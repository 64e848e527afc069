#include "ops/index_map.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "ops/index_step.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

/// Returns whether `step` is `inner` times its extent. Sizes that don't fit are refused later.
bool steps_on(std::int64_t step, std::int64_t inner, std::uint64_t extent) noexcept {
  std::int64_t next = 0;
  return !__builtin_mul_overflow(inner, extent, &next) && step == next;
}

/// Returns whether stepping `outer` continues where `inner` ends, on both sides.
bool continues(const Digit& outer, const Digit& inner) noexcept {
  return steps_on(outer.src_step, inner.src_step, inner.extent) &&
         steps_on(outer.dst_step, inner.dst_step, inner.extent);
}

/// Merges one pair of digits. Returns false if no pair can be merged.
bool merge_one(DigitList& digits) noexcept {
  for (std::size_t outer = 0; outer < digits.size(); ++outer) {
    for (std::size_t inner = digits.size(); inner-- > 0;) {
      if (inner == outer || !continues(digits[outer], digits[inner])) continue;
      digits[inner].extent *= digits[outer].extent;
      digits.erase(outer);
      return true;
    }
  }
  return false;
}

}  // namespace

DigitList::DigitList(std::initializer_list<Digit> digits) {
  for (const Digit& digit : digits) push_back(digit);
}

void DigitList::push_back(const Digit& digit) {
  if (size_ == kMax) {
    throw Error(ErrorCode::unsupported, "an index map has more than 16 digits")
        .hint("merge dims that are always together in the rule's patterns");
  }
  if (size_ < kInline) {
    items_[size_++] = digit;
    return;
  }
  if (size_ == kInline) spill_.assign(items_.begin(), items_.end());
  spill_.push_back(digit);
  ++size_;
}

void DigitList::clear() noexcept {
  spill_.clear();
  size_ = 0;
}

void DigitList::erase(std::size_t index) noexcept {
  std::copy(begin() + index + 1, end(), begin() + index);
  --size_;
  if (size_ < kInline) return;
  spill_.pop_back();
  if (size_ > kInline) return;
  std::copy(spill_.begin(), spill_.end(), items_.begin());
  spill_.clear();
}

bool operator==(const DigitList& a, const DigitList& b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

std::uint64_t IndexMap::count() const noexcept {
  std::uint64_t product = 1;
  bool overflow = false;
  for (const Digit& digit : digits) {
    if (digit.extent == 0) return 0;
    overflow = __builtin_mul_overflow(product, digit.extent, &product) || overflow;
  }
  return overflow ? std::numeric_limits<std::uint64_t>::max() : product;
}

IndexMap identity_map(const Shape& shape) {
  IndexMap out;
  const Shape strides = shape.strides();
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    const auto step = static_cast<std::int64_t>(strides[axis]);
    out.digits.push_back({shape[axis], step, step});
  }
  return out;
}

IndexMap inverse(const IndexMap& map) {
  IndexMap out = map;
  std::swap(out.src_base, out.dst_base);
  for (Digit& digit : out.digits) std::swap(digit.src_step, digit.dst_step);
  return out;
}

IndexMap normalize(const IndexMap& map) {
  IndexMap out{.src_base = map.src_base, .dst_base = map.dst_base, .digits = {}};
  for (Digit digit : map.digits) {
    if (digit.extent == 0) return {.src_base = 0, .dst_base = 0, .digits = {Digit{.extent = 0}}};
    if (digit.extent == 1) continue;
    if (digit.dst_step < 0 || (digit.dst_step == 0 && digit.src_step < 0)) {
      // Counting backwards visits the same pairs.
      out.src_base = advance(out.src_base, digit.extent - 1, digit.src_step);
      out.dst_base = advance(out.dst_base, digit.extent - 1, digit.dst_step);
      digit.src_step = -digit.src_step;
      digit.dst_step = -digit.dst_step;
    }
    out.digits.push_back(digit);
  }
  const auto slower = [](const Digit& a, const Digit& b) {
    return std::tie(a.dst_step, a.src_step, a.extent) > std::tie(b.dst_step, b.src_step, b.extent);
  };
  std::sort(out.digits.begin(), out.digits.end(), slower);
  while (merge_one(out.digits)) {
  }
  std::sort(out.digits.begin(), out.digits.end(), slower);
  return out;
}

}  // namespace hfshard
