#pragma once

#include <cstdint>

namespace hfshard {

/// Returns base + index * step, in wrapping arithmetic, since a map's offsets are checked as a
/// whole.
inline std::uint64_t advance(std::uint64_t base, std::uint64_t index, std::int64_t step) noexcept {
  return base + index * static_cast<std::uint64_t>(step);
}

/// Returns the quotient rounded towards minus infinity. Requires `divisor` > 0.
inline std::int64_t floor_div(std::int64_t value, std::int64_t divisor) noexcept {
  const std::int64_t quotient = value / divisor;
  return value % divisor < 0 ? quotient - 1 : quotient;
}

/// Returns the quotient rounded towards plus infinity. Requires `divisor` > 0.
inline std::int64_t ceil_div_signed(std::int64_t value, std::int64_t divisor) noexcept {
  return -floor_div(-value, divisor);
}

}  // namespace hfshard
