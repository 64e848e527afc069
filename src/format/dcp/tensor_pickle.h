#pragma once

#include <cstdint>
#include <string>

#include "format/dcp/pickle.h"

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// What `data.pkl` says of a tensor. Extents, strides and offset are in units of the dtype
/// (torch_dtype.h).
struct TensorPickle {
  DType dtype = DType::bf16;
  Shape shape;
  Shape strides;
  std::uint64_t offset = 0;         ///< of the first element in its storage
  std::uint64_t storage_bytes = 0;  ///< of the record that has the elements
  std::string record;               ///< below the archive's folder: "data/0"
};

/// Throws: unsupported (something else than a plain tensor, by the name of what makes it), corrupt.
TensorPickle read_tensor_pickle(const Pickle& pickle);

/// The pickle of a packed, row-major tensor of that shape, in units, in the record data/0. As torch
/// has it, without a memo.
std::string tensor_pickle(DType dtype, const Shape& shape);

}  // namespace hfshard::format::dcp
