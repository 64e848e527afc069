#include "ops/value.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "base/floats.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

/// Elements worked on at a time: constant, so that the loops are vectorised at every optimisation
/// level.
constexpr std::size_t kBlock = 512;
using Block = std::array<float, kBlock>;

// f16 below: the functions of base/floats without branches, so that loops over them are vectorised;
// same bits.

/// A half as a float, but for infinities and NaNs.
float widen_finite(std::uint16_t half) noexcept {
  // The exponent is 112 too small; a multiplication by 2^112 corrects subnormals too.
  return std::bit_cast<float>((half & 0x7fffU) << 13) * 0x1p112F;
}

float widen_f16(std::uint16_t half, float finite) noexcept {
  const std::uint32_t magnitude = (half & 0x7fffU) << 13;
  const std::uint32_t bits =
      magnitude >= 0x0f800000U ? magnitude | 0x7f800000U : std::bit_cast<std::uint32_t>(finite);
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

/// The bits of a float that is too small for a normal half. One unit in the last place of 0.5 is
/// the smallest half, so the addition rounds to nearest even.
std::uint32_t narrow_small(float value) noexcept {
  const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(value) & 0x7fffffffU;
  return std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
}

std::uint16_t narrow_f16(float value, std::uint32_t small) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  std::uint32_t out = magnitude < 0x38800000U ? small : normal;
  out = magnitude >= 0x47800000U ? 0x7c00U : out;
  out = magnitude > 0x7f800000U ? nan : out;
  return static_cast<std::uint16_t>(out | (bits >> 31 << 15));
}

struct Bf16 {
  using Bits = std::uint16_t;
  static float widen(Bits bits) noexcept { return bf16_to_f32(bits); }
  static Bits narrow(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t nan = (bits >> 16) | 0x40U;
    const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<Bits>((bits & 0x7fffffffU) > 0x7f800000U ? nan : rounded);
  }
};

struct F16 {
  using Bits = std::uint16_t;
};

struct F32 {
  using Bits = std::uint32_t;
  static float widen(Bits bits) noexcept { return std::bit_cast<float>(bits); }
  static Bits narrow(float value) noexcept { return std::bit_cast<Bits>(value); }
};

template <typename Float>
void widen_block(const std::byte* src, Block& out) noexcept {
  std::array<typename Float::Bits, kBlock> bits;
  std::memcpy(bits.data(), src, sizeof bits);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = Float::widen(bits[i]);
}

template <typename Float>
void narrow_block(const Block& in, std::byte* dst) noexcept {
  std::array<typename Float::Bits, kBlock> bits;
  for (std::size_t i = 0; i < kBlock; ++i) bits[i] = Float::narrow(in[i]);
  std::memcpy(dst, bits.data(), sizeof bits);
}

// In two loops: floating-point work under a condition is not vectorised.
template <>
void widen_block<F16>(const std::byte* src, Block& out) noexcept {
  std::array<F16::Bits, kBlock> bits;
  std::memcpy(bits.data(), src, sizeof bits);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = widen_finite(bits[i]);
  for (std::size_t i = 0; i < kBlock; ++i) out[i] = widen_f16(bits[i], out[i]);
}

template <>
void narrow_block<F16>(const Block& in, std::byte* dst) noexcept {
  std::array<std::uint32_t, kBlock> small;
  std::array<F16::Bits, kBlock> bits;
  for (std::size_t i = 0; i < kBlock; ++i) small[i] = narrow_small(in[i]);
  for (std::size_t i = 0; i < kBlock; ++i) bits[i] = narrow_f16(in[i], small[i]);
  std::memcpy(dst, bits.data(), sizeof bits);
}

void compute_block(const Value& value, Block& block) noexcept {
  if (value.mul) {
    const float mul = *value.mul;
    for (float& x : block) x = x * mul;
  }
  if (value.add) {
    const float add = *value.add;
    for (float& x : block) x = x + add;
  }
}

template <typename From, typename To>
void apply_all(const Value& value, std::uint64_t count, const std::byte* src, std::byte* dst) {
  constexpr std::size_t kFrom = sizeof(typename From::Bits);
  constexpr std::size_t kTo = sizeof(typename To::Bits);
  Block block;
  std::uint64_t done = 0;
  for (; count - done >= kBlock; done += kBlock) {
    widen_block<From>(src + done * kFrom, block);
    compute_block(value, block);
    narrow_block<To>(block, dst + done * kTo);
  }
  if (done == count) return;
  const std::size_t rest = count - done;
  std::array<std::byte, kBlock * sizeof(float)> bytes{};
  std::memcpy(bytes.data(), src + done * kFrom, rest * kFrom);
  widen_block<From>(bytes.data(), block);
  compute_block(value, block);
  narrow_block<To>(block, bytes.data());
  std::memcpy(dst + done * kTo, bytes.data(), rest * kTo);
}

template <typename From>
void apply_from(const Value& value, DType to, std::uint64_t count, const std::byte* src,
                std::byte* dst) {
  if (to == DType::bf16) return apply_all<From, Bf16>(value, count, src, dst);
  if (to == DType::f16) return apply_all<From, F16>(value, count, src, dst);
  apply_all<From, F32>(value, count, src, dst);
}

bool is_computable(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

}  // namespace

bool can_apply_value(const Value& value, DType from, DType to) noexcept {
  return (value.empty() && from == to) || (is_computable(from) && is_computable(to));
}

void apply_value(const Value& value, DType from, DType to, std::uint64_t count,
                 std::span<const std::byte> src, std::span<std::byte> dst) {
  if (!can_apply_value(value, from, to)) {
    throw Error(ErrorCode::unsupported, "values of dtype " + std::string(to_string(from)) +
                                            " cannot be computed as " + std::string(to_string(to)))
        .hint("casts and value rules work on f16, bf16 and f32");
  }
  HFSHARD_CHECK(src.size() == packed_bytes(from, count) && dst.size() == packed_bytes(to, count));
  if (count == 0) return;
  if (value.empty() && from == to) {
    std::memcpy(dst.data(), src.data(), src.size());
    return;
  }
  if (from == DType::bf16) return apply_from<Bf16>(value, to, count, src.data(), dst.data());
  if (from == DType::f16) return apply_from<F16>(value, to, count, src.data(), dst.data());
  apply_from<F32>(value, to, count, src.data(), dst.data());
}

}  // namespace hfshard
