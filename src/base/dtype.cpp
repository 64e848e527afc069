#include "hfshard/dtype.h"

#include <fmt/format.h>

#include "base/checked.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

struct DTypeInfo {
  std::string_view safetensors_name;
  std::string_view name;
  std::uint32_t bits;
  bool is_float;
};

// In the order of DType. Source: huggingface/safetensors safetensors/src/tensor.rs, Dtype::bitsize.
constexpr std::array<DTypeInfo, kDTypeCount> kDTypes{{
    {"BOOL", "bool", 8, false},
    {"F4", "f4", 4, true},
    {"F6_E2M3", "f6_e2m3", 6, true},
    {"F6_E3M2", "f6_e3m2", 6, true},
    {"U8", "u8", 8, false},
    {"I8", "i8", 8, false},
    {"F8_E5M2", "f8_e5m2", 8, true},
    {"F8_E4M3", "f8_e4m3", 8, true},
    {"F8_E8M0", "f8_e8m0", 8, true},
    {"F8_E4M3FNUZ", "f8_e4m3fnuz", 8, true},
    {"F8_E5M2FNUZ", "f8_e5m2fnuz", 8, true},
    {"I16", "i16", 16, false},
    {"U16", "u16", 16, false},
    {"F16", "f16", 16, true},
    {"BF16", "bf16", 16, true},
    {"I32", "i32", 32, false},
    {"U32", "u32", 32, false},
    {"F32", "f32", 32, true},
    {"C64", "c64", 64, false},
    {"F64", "f64", 64, true},
    {"I64", "i64", 64, false},
    {"U64", "u64", 64, false},
}};
static_assert(static_cast<std::size_t>(DType::u64) + 1 == kDTypeCount);

const DTypeInfo& info_of(DType dtype) noexcept { return kDTypes[static_cast<std::size_t>(dtype)]; }

std::optional<DType> find_name(std::string_view name,
                               std::string_view DTypeInfo::*member) noexcept {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].*member == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace

std::uint32_t size_bits(DType dtype) noexcept { return info_of(dtype).bits; }

std::string_view safetensors_name(DType dtype) noexcept { return info_of(dtype).safetensors_name; }

std::string_view to_string(DType dtype) noexcept { return info_of(dtype).name; }

std::optional<DType> dtype_from_safetensors(std::string_view name) noexcept {
  return find_name(name, &DTypeInfo::safetensors_name);
}

std::optional<DType> dtype_from_string(std::string_view name) noexcept {
  return find_name(name, &DTypeInfo::name);
}

bool is_float(DType dtype) noexcept { return info_of(dtype).is_float; }

std::uint64_t packed_bytes(DType dtype, std::uint64_t numel) {
  const auto bits = checked_mul(numel, size_bits(dtype));
  if (!bits) {
    throw Error(ErrorCode::bad_input, fmt::format("{} elements of {} don't fit in 64-bit sizes",
                                                  numel, to_string(dtype)));
  }
  if (*bits % 8 != 0) {
    throw Error(ErrorCode::bad_input,
                fmt::format("{} elements of {} don't fill the last byte", numel, to_string(dtype)));
  }
  return *bits / 8;
}

}  // namespace hfshard
