#include "ops/value.h"

#include <array>
#include <cstring>
#include <string>

#include "ops/float_block.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

template <typename From, typename To>
std::uint64_t apply_all(const Value& value, std::uint64_t count, const std::byte* src,
                        std::byte* dst) {
  constexpr std::size_t kFrom = sizeof(typename From::Bits);
  constexpr std::size_t kTo = sizeof(typename To::Bits);
  FloatBlock block;
  std::array<typename To::Bits, kFloatBlock> bits;
  std::uint64_t overflows = 0;
  const auto work = [&](const std::byte* from) {
    widen_block<From>(from, block);
    const FloatBlock source = block;
    compute_block(value, block);
    narrow_block<To>(block, bits);
    overflows += count_overflows<To>(source, bits);
  };
  std::uint64_t done = 0;
  for (; count - done >= kFloatBlock; done += kFloatBlock) {
    work(src + done * kFrom);
    std::memcpy(dst + done * kTo, bits.data(), sizeof bits);
  }
  if (done == count) return overflows;
  const std::size_t rest = count - done;
  std::array<std::byte, kFloatBlock * sizeof(float)> bytes{};
  std::memcpy(bytes.data(), src + done * kFrom, rest * kFrom);
  work(bytes.data());
  std::memcpy(dst + done * kTo, bits.data(), rest * kTo);
  return overflows;
}

template <typename From>
std::uint64_t apply_from(const Value& value, DType to, std::uint64_t count, const std::byte* src,
                         std::byte* dst) {
  if (to == DType::bf16) return apply_all<From, Bf16>(value, count, src, dst);
  if (to == DType::f16) return apply_all<From, F16>(value, count, src, dst);
  return apply_all<From, F32>(value, count, src, dst);
}

bool is_computable(DType dtype) noexcept {
  return dtype == DType::bf16 || dtype == DType::f16 || dtype == DType::f32;
}

}  // namespace

bool can_apply_value(const Value& value, DType from, DType to) noexcept {
  return (value.empty() && from == to) || (is_computable(from) && is_computable(to));
}

std::uint64_t apply_value(const Value& value, DType from, DType to, std::uint64_t count,
                          std::span<const std::byte> src, std::span<std::byte> dst) {
  if (!can_apply_value(value, from, to)) {
    throw Error(ErrorCode::unsupported, "values of dtype " + std::string(to_string(from)) +
                                            " cannot be computed as " + std::string(to_string(to)))
        .hint("casts and value rules work on f16, bf16 and f32");
  }
  HFSHARD_CHECK(src.size() == packed_bytes(from, count) && dst.size() == packed_bytes(to, count));
  if (count == 0) return 0;
  if (value.empty() && from == to) {
    std::memcpy(dst.data(), src.data(), src.size());
    return 0;
  }
  if (from == DType::bf16) return apply_from<Bf16>(value, to, count, src.data(), dst.data());
  if (from == DType::f16) return apply_from<F16>(value, to, count, src.data(), dst.data());
  return apply_from<F32>(value, to, count, src.data(), dst.data());
}

}  // namespace hfshard
