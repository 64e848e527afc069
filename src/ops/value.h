#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/cpu.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A value rule: x -> round(x * mul + add), in f32, rounded once to the target dtype, nearest even.
/// Constants are already rounded to their const_dtype and widened to f32.
struct Value {
  std::optional<float> mul;
  std::optional<float> add;
  bool empty() const noexcept { return !mul && !add; }
  friend bool operator==(const Value&, const Value&) = default;
};

/// Applies `value` to `count` elements of `from` and stores them as `to`. Sources: f16, bf16, f32;
/// targets: f16, bf16, f32. With an empty value and from == to the bits are copied unchanged; from
/// -> f32 widening is exact; i32 and i64 become f32 (to nearest even: exact up to 2^24), and f32
/// becomes the nearest of those (0 where there is none). Spans hold exactly count elements,
/// unaligned. Returns how many finite values became infinite, or no integer. `simd`
/// changes no bits. Thread-safe. Throws: unsupported (naming the dtypes) for other pairs.
std::uint64_t apply_value(const Value& value, DType from, DType to, std::uint64_t count,
                          std::span<const std::byte> src, std::span<std::byte> dst,
                          Simd simd = best_simd());

/// Whether apply_value accepts the pair.
bool can_apply_value(const Value& value, DType from, DType to) noexcept;

}  // namespace hfshard
