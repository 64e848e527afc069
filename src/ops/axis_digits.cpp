#include "ops/axis_digits.h"

#include <algorithm>

namespace hfshard {

std::vector<AxisDigit> digits_along(const IndexMap& map, std::uint64_t stride,
                                    std::uint64_t length) {
  std::vector<AxisDigit> out;
  for (const Digit& digit : map.digits) {
    const auto step = static_cast<std::uint64_t>(digit.dst_step);
    if (digit.extent > 1 && step >= stride && step < stride * length)
      out.push_back({digit.extent, step / stride, digit.src_step});
  }
  std::ranges::sort(out, {}, &AxisDigit::step);
  return out;
}

std::uint64_t dense_extent(std::span<const AxisDigit> digits) noexcept {
  std::uint64_t next = 1;
  for (const AxisDigit& digit : digits) {
    if (digit.step != next) return 0;
    next *= digit.extent;
  }
  return next;
}

}  // namespace hfshard
