#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "hfshard/diff.h"
#include "hfshard/dtype.h"

namespace hfshard {

/// How elements differ that do.
struct ElementDifferences {
  std::uint64_t count = 0;
  std::uint64_t first = UINT64_MAX;  ///< the lowest, as an index into what was compared
  double largest_absolute = 0;       ///< of those where neither is a NaN
  std::uint64_t largest_ulps = 0;    ///< of the same
  std::uint64_t left_nans = 0;       ///< that are no NaN, or another one, on the other side
  std::uint64_t right_nans = 0;
  std::array<std::uint64_t, kUlpSteps.size() + 1> by_ulps{};  ///< of those without a NaN
  /// Adds others, of which `first` is kept if it is lower.
  ElementDifferences& operator+=(const ElementDifferences& other) noexcept;
};

/// Compares packed elements one by one. Two are equal if their bits are; with a tolerance also if
/// both are NaN, or no farther apart than it says. `dtype`: of whole bytes.
ElementDifferences compare_elements(DType dtype, const DiffTolerance& tolerance,
                                    std::span<const std::byte> left,
                                    std::span<const std::byte> right);

/// An element in decimal, so that it reads back as it is: "0.1", "-inf", "nan".
std::string element_text(DType dtype, std::span<const std::byte> element);

}  // namespace hfshard
