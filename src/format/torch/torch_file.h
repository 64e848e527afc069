#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bytes/local/source.h"
#include "bytes/store/store.h"
#include "catalog/format.h"
#include "format/pickle.h"
#include "format/tensor_pickle.h"
#include "format/torch/dtensor.h"

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::torch {

/// A rank's part of a tensor.
struct Shard {
  Shape shape;                        ///< of the whole tensor, in units
  std::vector<Placement> placements;  ///< by axis of the mesh
  DeviceMesh mesh = {};               ///< empty if the file doesn't state it
  bool is_in_order = true;            ///< rank 0 is the first of the mesh, and so on
  friend bool operator==(const Shard&, const Shard&) = default;
};

/// Returns whether elements with these steps are contiguous, the last axis fastest.
bool is_packed(const Shape& units, const Shape& strides);

/// One tensor of a file of torch.save: a view of a storage that is in the file uncompressed.
struct StoredView {
  std::string name;
  DType dtype = DType::bf16;
  Shape units;                       ///< extents (torch_dtype.h)
  Shape strides;                     ///< in units
  std::uint64_t begin_bytes = 0;     ///< of its first element, in the file
  std::uint64_t offset_bytes = 0;    ///< of its first element, in the storage
  std::optional<std::uint32_t> crc;  ///< of the storage
  bool is_whole = false;             ///< it is all of the storage
  std::optional<Shard> shard;        ///< for the local elements of a DTensor

  bool is_packed() const { return torch::is_packed(units, strides); }
  /// Returns the size of its elements, packed. Throws: limit.
  std::uint64_t size_bytes() const;
};

/// The description of a file.
struct TorchFile {
  FileIdentity identity;                    ///< when it was read
  std::string sha256;                       ///< hex, of data.pkl and the zip directory
  std::vector<StoredView> tensors;          ///< sorted by name
  std::string below;                        ///< path of keys to the tensors, dotted
  std::vector<std::string> others;          ///< keys of other values
  std::vector<UnreadableArray> unreadable;  ///< tensors that are left out (Choice::without)
};

/// The place of a storage.
struct StoragePlace {
  std::uint64_t begin_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::optional<std::uint32_t> crc;
};
using PlaceStorage = std::function<StoragePlace(const TensorPickle& tensor)>;
/// Adds the tensors of a pickle. Throws: as read_torch_file.
void take_tensors(const Pickle& pickle, const PlaceStorage& place, const Choice& choice,
                  TorchFile& out);

/// Returns whether a file begins like one of torch.save, in either format. `of_any_name`: it isn't
/// enough to be a zip archive.
bool begins_as_torch_file(const StorePath& path, bool of_any_name = false);

/// Reads the zip directory, data.pkl and the places of the storages, or the equivalents of the
/// format before 1.6. Reads no elements. Checks every number against the file. Throws: corrupt
/// (truncated or damaged), bad_input (a git-lfs pointer, or not a file of torch.save), unsupported
/// (TorchScript, a kind of tensor, big-endian), limit, not_found, io; each names the file and, if
/// it matters, the tensor. `choice`: its `without` and `root`.
TorchFile read_torch_file(const StorePath& path, const Choice& choice = {});

}  // namespace hfshard::format::torch
