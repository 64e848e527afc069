#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hfshard/diff.h"
#include "hfshard/dtype.h"

namespace hfshard {

/// Statistics about elements that differ.
struct ElementDifferences {
  std::uint64_t count = 0;
  std::uint64_t first = UINT64_MAX;  ///< lowest index of a compared element
  double largest_absolute = 0;       ///< without NaNs
  std::uint64_t largest_ulps = 0;    ///< without NaNs
  std::uint64_t left_nans = 0;       ///< different on the other side
  std::uint64_t right_nans = 0;
  std::array<std::uint64_t, kUlpSteps.size() + 1> by_ulps{};  ///< without NaNs
  /// Adds others. The lower `first` is kept.
  ElementDifferences& operator+=(const ElementDifferences& other) noexcept;
};

/// Compares packed elements one by one. Two are equal if their bits are. With a tolerance, they are
/// also equal if both are NaN, or if their distance is within it. `dtype` must have whole bytes.
ElementDifferences compare_elements(DType dtype, const DiffTolerance& tolerance,
                                    std::span<const std::byte> left,
                                    std::span<const std::byte> right);

/// Returns an element in decimal that reads back as the same value: "0.1", "-inf", "nan".
std::string element_text(DType dtype, std::span<const std::byte> element);

}  // namespace hfshard
