#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard::format::dcp {

inline constexpr const char* kMetadataFile = ".metadata";
/// The one transform of items that is undone. Source: pytorch/pytorch
/// torch/distributed/checkpoint/_extension.py, ZStandard.
inline constexpr std::string_view kZstdTransform = "stream.zstd/1";

/// Where an item lies: a file of the checkpoint and a range of it.
struct ItemPlace {
  std::uint32_t file = 0;  ///< index into Metadata::files
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  bool zstd = false;  ///< it is zstd frames with the archive in them: a packed item
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
  std::vector<StoredBox> boxes;  ///< sorted by `begin`; those without elements are left out
};

/// Something else than a tensor, which is kept as it is.
struct StoredObject {
  std::string name;
  ItemPlace place;
};

/// What `.metadata` says.
struct Metadata {
  std::vector<StoredTensor> tensors;  ///< sorted by name
  std::vector<StoredObject> objects;  ///< sorted by name
  std::vector<std::string> files;     ///< relative paths, in the order of their first mention
};

/// Reads the file. Every box has its place; nothing is said about what lies there. Throws:
/// unsupported (a dtype, layout or transform by name, opcodes that no checkpoint has), corrupt
/// (what contradicts itself, a path that leaves the directory), limit, io; naming the file, and the
/// tensor where it is about one.
Metadata read_metadata(const StorePath& path);
/// The same of its bytes; `name` is the file's, in errors.
Metadata read_metadata(std::string bytes, const std::string& name);

}  // namespace hfshard::format::dcp
