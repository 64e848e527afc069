#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/index_map.h"

namespace hfshard {

/// A digit of a map that steps along one axis of its target.
struct AxisDigit {
  std::uint64_t extent = 1;
  std::uint64_t step = 1;  ///< in indices of that axis
  std::int64_t src_step = 0;
};

/// Returns the digits of the axis with this stride and length, fast to slow, without those of
/// extent 1. Requires that no digit of the map spans two axes.
std::vector<AxisDigit> digits_along(const IndexMap& map, std::uint64_t stride,
                                    std::uint64_t length);
/// Returns the number of consecutive indices that digits count, fast to slow. 0 if they skip some.
std::uint64_t dense_extent(std::span<const AxisDigit> digits) noexcept;

}  // namespace hfshard
