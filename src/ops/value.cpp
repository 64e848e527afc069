#include "ops/value.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include <fmt/format.h>

#include "ops/float_block.h"
#include "ops/simd.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The loops for one pair of dtypes.
template <typename From, typename To, bool kComputes>
struct Converter {
  FullValue value;

  // Converts one block, of which the first `count` elements count. Returns the overflows.
  std::uint64_t convert(const BitsBlock<From>& in, std::size_t count, BitsBlock<To>& out) const {
    for (std::size_t i = 0; i < kFloatBlock; ++i) {
      const auto x = From::widen(in[i]);
      out[i] = narrowed<To>(kComputes ? value(x) : x);
    }
    if (!has_infinity<To>(out)) return 0;
    return count_overflows<To>(out, count, [&](std::size_t i) { return From::widen(in[i]); });
  }

  std::uint64_t all(std::uint64_t count, const std::byte* src, std::byte* dst) const {
    BitsBlock<From> in{};
    BitsBlock<To> out{};
    std::uint64_t overflows = 0;
    std::uint64_t done = 0;
    for (; count - done >= kFloatBlock; done += kFloatBlock) {
      std::memcpy(in.data(), src + done * sizeof in[0], sizeof in);
      overflows += convert(in, kFloatBlock, out);
      std::memcpy(dst + done * sizeof out[0], out.data(), sizeof out);
    }
    const auto rest = static_cast<std::size_t>(count - done);
    if (rest == 0) return overflows;
    in = {};
    std::memcpy(in.data(), src + done * sizeof in[0], rest * sizeof in[0]);
    overflows += convert(in, rest, out);
    std::memcpy(dst + done * sizeof out[0], out.data(), rest * sizeof out[0]);
    return overflows;
  }
};

template <typename From, typename To>
std::uint64_t apply_all(const Value& value, std::uint64_t count, const std::byte* src,
                        std::byte* dst) {
  const FullValue full(value);
  // Widening without a value rule keeps the bits of signaling NaNs.
  if (value.empty()) return Converter<From, To, false>{full}.all(count, src, dst);
  return Converter<From, To, true>{full}.all(count, src, dst);
}

template <typename From>
std::uint64_t apply_from(const Value& value, DType to, std::uint64_t count, const std::byte* src,
                         std::byte* dst) {
  if (to == DType::bf16) return apply_all<From, Bf16>(value, count, src, dst);
  if (to == DType::f16) return apply_all<From, F16>(value, count, src, dst);
  return apply_all<From, F32>(value, count, src, dst);
}

// Integers as a source.
template <typename Number>
struct Integer {
  using Bits = Number;
  static float widen(Bits number) noexcept { return static_cast<float>(number); }
};

bool is_computable(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

bool is_integer(DType dtype) noexcept { return dtype == DType::i32 || dtype == DType::i64; }

template <typename Number>
void to_integers(std::uint64_t count, const std::byte* src, std::byte* dst) {
  constexpr float kEnd = -static_cast<float>(std::numeric_limits<Number>::min());
  for (std::uint64_t i = 0; i < count; ++i) {
    float value = 0;
    std::memcpy(&value, src + i * sizeof value, sizeof value);
    if (!(value >= -kEnd && value < kEnd) || value != std::nearbyint(value)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the tensor holds integers, and {} isn't one", value))
          .hint(
              "training has changed it; pass --exclude with its name, and take the original "
              "model's tensor");
    }
    const auto out = static_cast<Number>(value);
    std::memcpy(dst + i * sizeof out, &out, sizeof out);
  }
}

}  // namespace

bool can_apply_value(const Value& value, DType from, DType to) noexcept {
  if (value.empty() && (from == to || (is_integer(from) && to == DType::f32) ||
                        (from == DType::f32 && is_integer(to))))
    return true;
  return (is_computable(from) || from == DType::f64) && is_computable(to);
}

std::uint64_t apply_value(const Value& value, DType from, DType to, std::uint64_t count,
                          std::span<const std::byte> src, std::span<std::byte> dst, Simd simd) {
  if (!can_apply_value(value, from, to)) {
    throw Error(ErrorCode::unsupported, "values of dtype " + std::string(to_string(from)) +
                                            " can't be computed as " + std::string(to_string(to)))
        .hint(kCastHint);
  }
  HFSHARD_CHECK(src.size() == packed_bytes(from, count) && dst.size() == packed_bytes(to, count));
  if (count == 0) return 0;
  if (value.empty() && from == to) {
    std::memcpy(dst.data(), src.data(), src.size());
    return 0;
  }
  if (is_integer(to)) {
    (to == DType::i32 ? to_integers<std::int32_t> : to_integers<std::int64_t>)(count, src.data(),
                                                                               dst.data());
    return 0;
  }
  std::uint64_t overflows = 0;
  run_as(simd, [&](auto) {
    if (from == DType::bf16) {
      overflows = apply_from<Bf16>(value, to, count, src.data(), dst.data());
    } else if (from == DType::f16) {
      overflows = apply_from<F16>(value, to, count, src.data(), dst.data());
    } else if (from == DType::f64) {
      overflows = apply_from<F64>(value, to, count, src.data(), dst.data());
    } else if (from == DType::i32) {
      overflows = apply_all<Integer<std::int32_t>, F32>(value, count, src.data(), dst.data());
    } else if (from == DType::i64) {
      overflows = apply_all<Integer<std::int64_t>, F32>(value, count, src.data(), dst.data());
    } else {
      overflows = apply_from<F32>(value, to, count, src.data(), dst.data());
    }
  });
  return overflows;
}

}  // namespace hfshard
