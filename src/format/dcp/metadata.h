#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/object.h"

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::dcp {

inline constexpr const char* kMetadataFile = ".metadata";
/// The only transform of items that hfshard can undo. Source: pytorch/pytorch
/// torch/distributed/checkpoint/_extension.py, ZStandard.
inline constexpr std::string_view kZstdTransform = "stream.zstd/1";

/// The place of an item: a file of the checkpoint and a range of it.
struct ItemPlace {
  std::uint32_t file = 0;  ///< index into Metadata::files
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  bool zstd = false;  ///< zstd frames with the archive: a packed item
  ByteRange range() const noexcept { return {offset_bytes, offset_bytes + length_bytes}; }
};

/// One stored part of a tensor. Extents are in units of the dtype (torch_dtype.h).
struct StoredBox {
  Shape begin;
  Shape extent;
  ItemPlace place;
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;                   ///< in units
  std::vector<StoredBox> boxes;  ///< with elements only, sorted by `begin`
};

/// A value that isn't a tensor. hfshard keeps its bytes.
struct StoredObject {
  std::string name;
  ItemPlace place;
  std::vector<std::string> transforms;  ///< already applied to the bytes, never undone
};

/// The contents of `.metadata`.
/// A part of a tensor that two ranks stored. Only `kept` is read.
struct Replica {
  StoredTensor tensor;  ///< without boxes
  StoredBox kept;
  StoredBox other;
};

struct Metadata {
  std::vector<StoredTensor> tensors;          ///< sorted by name
  std::vector<StoredObject> objects;          ///< sorted by name
  std::vector<std::string> files;             ///< relative paths, by first mention
  std::vector<NestedName> nested;             ///< planner_data, sorted; redundant keys omitted
  bool other_planner = false;                 ///< another planner wrote planner_data
  std::vector<UnreadableArray> unreadable{};  ///< tensors that are left out (Choice::without)
  std::vector<Replica> replicas{};            ///< by name; only of several ranks' metadata
};

/// Reads the file. Every box gets its place, whose contents aren't checked. Throws: unsupported (a
/// dtype, layout or transform by name, opcodes that checkpoints don't use), corrupt
/// (contradictions, a path that leaves the directory), limit, io; naming the file and, if it
/// matters, the tensor. `without`: Choice::without.
Metadata read_metadata(const StorePath& path, const std::vector<std::string>& without = {});
/// Parses the bytes of the file; `name` is the file's, for errors.
Metadata read_metadata(std::string bytes, const std::string& name,
                       const std::vector<std::string>& without = {});

}  // namespace hfshard::format::dcp
