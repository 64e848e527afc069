#pragma once

#include <cstdint>
#include <optional>

namespace hfshard {

/// a + b, or nothing on overflow.
inline std::optional<std::uint64_t> checked_add(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// a * b, or nothing on overflow.
inline std::optional<std::uint64_t> checked_mul(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// True if [offset, offset + length) lies within [0, total), without wrapping.
inline bool in_range(std::uint64_t offset, std::uint64_t length, std::uint64_t total) noexcept {
  return offset <= total && length <= total - offset;
}

inline constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

inline constexpr std::uint64_t ceil_div(std::uint64_t value, std::uint64_t divisor) noexcept {
  return (value + divisor - 1) / divisor;
}

}  // namespace hfshard
