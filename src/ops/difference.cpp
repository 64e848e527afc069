#include "ops/difference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "base/floats.h"
#include "ops/code_values.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The properties of an element's bits. Each kind has the bits' type, `is_nan`, `number`, and `key`.
// Keys are consecutive integers in the order of the numbers.

// For floats with a leading sign bit, whose magnitudes have the order of their bits.
template <typename BitsType>
std::int64_t signed_key(BitsType bits) noexcept {
  constexpr auto kSign = static_cast<BitsType>(BitsType{1} << (sizeof(BitsType) * 8 - 1));
  const auto magnitude = static_cast<std::int64_t>(bits & static_cast<BitsType>(kSign - 1));
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

template <typename BitsType, double (*kNumber)(BitsType)>
struct SignedFloat {
  using Bits = BitsType;
  static constexpr bool kIsWhole = false;
  static double number(Bits bits) noexcept { return kNumber(bits); }
  static bool is_nan(Bits bits) noexcept { return std::isnan(kNumber(bits)); }
  static std::uint64_t apart(Bits a, Bits b) noexcept {
    const std::int64_t x = signed_key(a);
    const std::int64_t y = signed_key(b);
    const auto ux = static_cast<std::uint64_t>(x);
    const auto uy = static_cast<std::uint64_t>(y);
    return x > y ? ux - uy : uy - ux;
  }
};

double of_f64(std::uint64_t bits) { return std::bit_cast<double>(bits); }
double of_f32(std::uint32_t bits) { return static_cast<double>(std::bit_cast<float>(bits)); }
double of_bf16(std::uint16_t bits) { return static_cast<double>(bf16_to_f32(bits)); }
double of_f16(std::uint16_t bits) { return static_cast<double>(f16_to_f32(bits)); }
double of_e4m3(std::uint8_t bits) { return static_cast<double>(F8E4M3::value(bits)); }
double of_e5m2(std::uint8_t bits) { return static_cast<double>(F8E5M2::value(bits)); }

// Kinds whose only NaN has the bits of a negative zero.
template <int kMantissaBits, int kBias>
double of_fnuz(std::uint8_t bits) {
  if (bits == 0x80) return std::numeric_limits<double>::quiet_NaN();
  const int magnitude = bits & 0x7f;
  const int exponent = magnitude >> kMantissaBits;
  const int fraction = magnitude & ((1 << kMantissaBits) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << kMantissaBits);
  const double out =
      std::ldexp(static_cast<double>(whole), std::max(exponent, 1) - kBias - kMantissaBits);
  return (bits & 0x80) != 0 ? -out : out;
}

struct E8M0 {
  using Bits = std::uint8_t;
  static constexpr bool kIsWhole = false;
  static bool is_nan(Bits bits) noexcept { return bits == 0xff; }
  static double number(Bits bits) noexcept {
    constexpr int kBias = 127;
    return is_nan(bits) ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, bits - kBias);
  }
  static std::uint64_t apart(Bits a, Bits b) noexcept { return a > b ? a - b : b - a; }
};

template <typename Integer>
struct WholeNumber {
  using Bits = std::make_unsigned_t<Integer>;
  static constexpr bool kIsWhole = true;
  static bool is_nan(Bits) noexcept { return false; }
  static std::uint64_t apart(Bits a, Bits b) noexcept {
    const bool greater = static_cast<Integer>(a) > static_cast<Integer>(b);
    return static_cast<Bits>(greater ? a - b : b - a);  // modulo 2^bits, which is larger
  }
};

// Calls `visit` with the kind of a dtype. Complex numbers are two floats.
template <typename Visit>
auto with_kind(DType dtype, const Visit& visit) {
  switch (dtype) {
    case DType::f64:
      return visit(SignedFloat<std::uint64_t, of_f64>());
    case DType::f32:
    case DType::c64:
      return visit(SignedFloat<std::uint32_t, of_f32>());
    case DType::bf16:
      return visit(SignedFloat<std::uint16_t, of_bf16>());
    case DType::f16:
      return visit(SignedFloat<std::uint16_t, of_f16>());
    case DType::f8_e4m3:
      return visit(SignedFloat<std::uint8_t, of_e4m3>());
    case DType::f8_e5m2:
      return visit(SignedFloat<std::uint8_t, of_e5m2>());
    case DType::f8_e4m3fnuz:
      return visit(SignedFloat<std::uint8_t, of_fnuz<3, 8>>());
    case DType::f8_e5m2fnuz:
      return visit(SignedFloat<std::uint8_t, of_fnuz<2, 16>>());
    case DType::f8_e8m0:
      return visit(E8M0());
    case DType::i8:
      return visit(WholeNumber<std::int8_t>());
    case DType::i16:
      return visit(WholeNumber<std::int16_t>());
    case DType::i32:
      return visit(WholeNumber<std::int32_t>());
    case DType::i64:
      return visit(WholeNumber<std::int64_t>());
    case DType::u16:
      return visit(WholeNumber<std::uint16_t>());
    case DType::u32:
      return visit(WholeNumber<std::uint32_t>());
    case DType::u64:
      return visit(WholeNumber<std::uint64_t>());
    case DType::boolean:
    case DType::u8:
    case DType::f4:
    case DType::f6_e2m3:
    case DType::f6_e3m2:
      break;
  }
  return visit(WholeNumber<std::uint8_t>());
}

template <typename Bits>
Bits bits_at(std::span<const std::byte> bytes, std::size_t index) noexcept {
  Bits out;
  std::memcpy(&out, bytes.data() + index * sizeof(Bits), sizeof(Bits));
  return out;
}

std::size_t step_of(std::uint64_t ulps) noexcept {
  const auto at = std::ranges::lower_bound(kUlpSteps, ulps);
  return static_cast<std::size_t>(at - kUlpSteps.begin());
}

// 64-bit integers can differ although their doubles don't.
template <typename Kind>
double distance(typename Kind::Bits left, typename Kind::Bits right) noexcept {
  if constexpr (Kind::kIsWhole) {
    return static_cast<double>(Kind::apart(left, right));
  } else {
    const double a = Kind::number(left);
    const double b = Kind::number(right);
    return a == b ? 0 : std::abs(a - b);
  }
}

// Adds one pair whose bits differ.
template <typename Kind>
void add_pair(typename Kind::Bits left, typename Kind::Bits right, std::uint64_t index,
              const DiffTolerance& tolerance, ElementDifferences& out) {
  const bool left_nan = Kind::is_nan(left);
  const bool right_nan = Kind::is_nan(right);
  if (left_nan || right_nan) {
    if (left_nan && right_nan && tolerance.given()) return;
    out.left_nans += left_nan ? 1 : 0;
    out.right_nans += right_nan ? 1 : 0;
  } else {
    const std::uint64_t ulps = Kind::apart(left, right);
    const double apart = distance<Kind>(left, right);
    if (tolerance.absolute && apart <= *tolerance.absolute) return;
    // The largest number is next to infinity, but not near it.
    if (tolerance.ulps && ulps <= *tolerance.ulps && std::isfinite(apart)) return;
    out.largest_absolute = std::max(out.largest_absolute, apart);
    out.largest_ulps = std::max(out.largest_ulps, ulps);
    ++out.by_ulps[step_of(ulps)];
  }
  ++out.count;
  out.first = std::min(out.first, index);
}

template <typename Kind>
void compare_block(std::span<const std::byte> left, std::span<const std::byte> right,
                   std::uint64_t first, const DiffTolerance& tolerance, ElementDifferences& out) {
  using Bits = typename Kind::Bits;
  const std::size_t count = left.size() / sizeof(Bits);
  for (std::size_t i = 0; i < count; ++i) {
    const Bits a = bits_at<Bits>(left, i);
    const Bits b = bits_at<Bits>(right, i);
    if (a != b) add_pair<Kind>(a, b, first + i, tolerance, out);
  }
}

}  // namespace

ElementDifferences& ElementDifferences::operator+=(const ElementDifferences& other) noexcept {
  count += other.count;
  first = std::min(first, other.first);
  largest_absolute = std::max(largest_absolute, other.largest_absolute);
  largest_ulps = std::max(largest_ulps, other.largest_ulps);
  left_nans += other.left_nans;
  right_nans += other.right_nans;
  for (std::size_t i = 0; i < by_ulps.size(); ++i) by_ulps[i] += other.by_ulps[i];
  return *this;
}

ElementDifferences compare_elements(DType dtype, const DiffTolerance& tolerance,
                                    std::span<const std::byte> left,
                                    std::span<const std::byte> right) {
  HFSHARD_CHECK(left.size() == right.size() && size_bits(dtype) % 8 == 0);
  constexpr std::size_t kBlock = 4096;  // skipped at once if equal
  ElementDifferences out;
  with_kind(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    for (std::size_t at = 0; at < left.size(); at += kBlock) {
      const std::size_t size = std::min(kBlock, left.size() - at);
      if (std::memcmp(left.data() + at, right.data() + at, size) == 0) continue;
      compare_block<Kind>(left.subspan(at, size), right.subspan(at, size),
                          at / sizeof(typename Kind::Bits), tolerance, out);
    }
  });
  if (dtype == DType::c64 && out.first != UINT64_MAX) out.first /= 2;
  return out;
}

std::string element_text(DType dtype, std::span<const std::byte> element) {
  if (dtype == DType::boolean) return element.front() == std::byte{0} ? "false" : "true";
  if (dtype == DType::c64) {
    return fmt::format("({}, {})", element_text(DType::f32, element.first(4)),
                       element_text(DType::f32, element.subspan(4)));
  }
  return with_kind(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    const auto bits = bits_at<typename Kind::Bits>(element, 0);
    if (Kind::is_nan(bits)) return std::string("nan");
    if constexpr (Kind::kIsWhole) {
      const bool is_signed =
          dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
      using Signed = std::make_signed_t<typename Kind::Bits>;
      return is_signed ? std::to_string(static_cast<std::int64_t>(static_cast<Signed>(bits)))
                       : std::to_string(static_cast<std::uint64_t>(bits));
    } else {
      const double number = Kind::number(bits);
      if (dtype == DType::f64) return fmt::format("{}", number);
      return fmt::format("{}", static_cast<float>(number));
    }
  });
}

}  // namespace hfshard
