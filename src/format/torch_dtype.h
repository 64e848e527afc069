#pragma once

#include <optional>
#include <string_view>

#include "hfshard/dtype.h"

namespace hfshard::format {

/// An element type in torch.
struct TorchDType {
  DType dtype = DType::bf16;
  std::string_view name;     ///< in `torch`: "bfloat16"
  std::string_view storage;  ///< its class in `torch`, or empty
};

/// Returns null if torch doesn't have the type.
const TorchDType* torch_dtype(DType dtype) noexcept;
/// Return null if hfshard doesn't have the type.
const TorchDType* torch_dtype_named(std::string_view name) noexcept;
const TorchDType* torch_dtype_of_storage(std::string_view storage) noexcept;

/// Returns the size of the smallest unit that a torch shape counts: an element, or a pair of 4-bit
/// elements.
std::uint64_t unit_bytes(DType dtype) noexcept;
/// Convert shapes between units and elements. They differ in the last dim of packed types. Throws:
/// unsupported (elements that don't fill the units of a row).
Shape from_units(DType dtype, const Shape& units);
Shape to_units(DType dtype, const Shape& shape);

}  // namespace hfshard::format
