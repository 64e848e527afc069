#include "format/torch_dtype.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "hfshard/error.h"

namespace hfshard::format {
namespace {

// _rebuild_tensor_v2 pickles types that have a storage class, and _v3 all others. Source:
// pytorch/pytorch torch/_tensor.py _reduce_ex_internal, torch/storage.py
// _dtype_to_storage_type_map.
constexpr std::array<TorchDType, 20> kTorchDTypes{{
    {DType::boolean, "bool", "BoolStorage"},
    {DType::f4, "float4_e2m1fn_x2", ""},
    {DType::u8, "uint8", "ByteStorage"},
    {DType::i8, "int8", "CharStorage"},
    {DType::f8_e5m2, "float8_e5m2", ""},
    {DType::f8_e4m3, "float8_e4m3fn", ""},
    {DType::f8_e8m0, "float8_e8m0fnu", ""},
    {DType::f8_e4m3fnuz, "float8_e4m3fnuz", ""},
    {DType::f8_e5m2fnuz, "float8_e5m2fnuz", ""},
    {DType::i16, "int16", "ShortStorage"},
    {DType::u16, "uint16", ""},
    {DType::f16, "float16", "HalfStorage"},
    {DType::bf16, "bfloat16", "BFloat16Storage"},
    {DType::i32, "int32", "IntStorage"},
    {DType::u32, "uint32", ""},
    {DType::f32, "float32", "FloatStorage"},
    {DType::c64, "complex64", "ComplexFloatStorage"},
    {DType::f64, "float64", "DoubleStorage"},
    {DType::i64, "int64", "LongStorage"},
    {DType::u64, "uint64", ""},
}};

template <typename Is>
const TorchDType* find_dtype(const Is& is) noexcept {
  const auto found = std::ranges::find_if(kTorchDTypes, is);
  return found == kTorchDTypes.end() ? nullptr : &*found;
}

bool is_packed(DType dtype) noexcept { return size_bits(dtype) < 8; }

}  // namespace

const TorchDType* torch_dtype(DType dtype) noexcept {
  return find_dtype([&](const TorchDType& each) { return each.dtype == dtype; });
}

const TorchDType* torch_dtype_named(std::string_view name) noexcept {
  return find_dtype([&](const TorchDType& each) { return each.name == name; });
}

const TorchDType* torch_dtype_of_storage(std::string_view storage) noexcept {
  if (storage.empty()) return nullptr;
  return find_dtype([&](const TorchDType& each) { return each.storage == storage; });
}

std::uint64_t unit_bytes(DType dtype) noexcept {
  return std::max<std::uint64_t>(size_bits(dtype) / 8, 1);
}

Shape from_units(DType dtype, const Shape& units) {
  Shape out = units;
  if (is_packed(dtype) && out.rank() > 0) out[out.rank() - 1] *= 8 / size_bits(dtype);
  return out;
}

Shape to_units(DType dtype, const Shape& shape) {
  Shape out = shape;
  if (!is_packed(dtype)) return out;
  const std::uint64_t each = 8 / size_bits(dtype);
  if (out.rank() == 0 || out[out.rank() - 1] % each != 0) {
    throw Error(ErrorCode::unsupported,
                fmt::format("rows of {} elements of {} do not fill torch's units of {}",
                            out.rank() == 0 ? 1 : out[out.rank() - 1], to_string(dtype), each));
  }
  out[out.rank() - 1] /= each;
  return out;
}

}  // namespace hfshard::format
