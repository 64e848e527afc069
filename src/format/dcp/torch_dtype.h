#pragma once

#include <optional>
#include <string_view>

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// An element type as torch has it.
struct TorchDType {
  DType dtype = DType::bf16;
  std::string_view name;     ///< below `torch`: "bfloat16"
  std::string_view storage;  ///< its class of storage, below `torch`; empty: an untyped one
};

/// Nothing for what torch has no type for.
const TorchDType* torch_dtype(DType dtype) noexcept;
/// Nothing for types that this program does not have.
const TorchDType* torch_dtype_named(std::string_view name) noexcept;
const TorchDType* torch_dtype_of_storage(std::string_view storage) noexcept;

/// Bytes of the smallest thing that a torch shape counts: an element, or a pair of 4-bit ones.
std::uint64_t unit_bytes(DType dtype) noexcept;
/// A shape in elements from one in units, and back: they differ in the last dim of packed types.
/// Throws: unsupported (elements that do not fill the units of a row).
Shape from_units(DType dtype, const Shape& units);
Shape to_units(DType dtype, const Shape& shape);

}  // namespace hfshard::format::dcp
