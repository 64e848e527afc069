#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/cpu.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A value rule: x -> round(x * mul + add), in f32 (in f64 for a source of f64). Rounds once to the
/// target dtype, to nearest even. Constants are already rounded to their const_dtype and widened.
struct Value {
  std::optional<float> mul;
  std::optional<float> add;
  bool empty() const noexcept { return !mul && !add; }
  friend bool operator==(const Value&, const Value&) = default;
};

/// Applies `value` to `count` elements of `from` and stores them as `to`. Sources are f16, bf16,
/// f32 and f64; targets are f16, bf16 and f32. With an empty value and from == to, the bits are
/// copied. Widening `from` to f32 is exact. Integers (i32, i64) become f32, to nearest even: exact
/// up to 2^24. An f32 becomes the integer that it equals. Spans have exactly count elements,
/// unaligned. Returns how many finite values became infinite. `simd` doesn't change bits.
/// Thread-safe. Throws: bad_input (an f32 that equals no such integer), unsupported (naming the
/// dtypes) for other pairs.
std::uint64_t apply_value(const Value& value, DType from, DType to, std::uint64_t count,
                          std::span<const std::byte> src, std::span<std::byte> dst,
                          Simd simd = best_simd());

/// The hint of errors about pairs that apply_value doesn't accept.
inline constexpr const char* kCastHint =
    "casts and value rules read f16, bf16, f32 and f64, and write f16, bf16 and f32";

/// Whether apply_value accepts the pair.
bool can_apply_value(const Value& value, DType from, DType to) noexcept;

}  // namespace hfshard
