#pragma once

#include <cstdint>
#include <string>

#include "format/pickle.h"

#include "hfshard/dtype.h"

namespace hfshard::format {

/// A tensor described by `data.pkl`. Extents, strides and offset are in units of the dtype
/// (torch_dtype.h).
struct TensorPickle {
  DType dtype = DType::bf16;
  Shape shape;
  Shape strides;
  std::uint64_t offset = 0;         ///< of the first element in its storage
  std::uint64_t storage_bytes = 0;  ///< of the record with the elements
  std::string record;               ///< without the archive's folder: "data/0"
};

/// Reads the tensor at the root. Throws: unsupported (not a plain tensor; names the function that
/// makes it), corrupt.
TensorPickle read_tensor_pickle(const Pickle& pickle);
/// Reads the tensor at one value of a pickle.
TensorPickle read_tensor_pickle(const Pickle& pickle, Pickle::Id id);
/// A storage described by a persistent id.
struct StoragePickle {
  std::string record;
  std::uint64_t size_bytes = 0;
  std::uint64_t unit_bytes = 1;
  bool is_view = false;  ///< of another storage, before torch 0.4
};
/// Reads a storage. Throws: as read_tensor_pickle.
StoragePickle read_storage_pickle(const Pickle& pickle, Pickle::Id id);
/// Returns whether a value is a tensor, even if read_tensor_pickle refuses it.
bool is_tensor_pickle(const Pickle& pickle, Pickle::Id id);

}  // namespace hfshard::format
