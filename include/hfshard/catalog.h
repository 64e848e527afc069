#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// One tensor of a source: packed, row-major, little-endian bytes in one file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::bf16;
  Shape shape;
  std::uint32_t file = 0;         ///< index into Catalog::files
  std::uint64_t begin_bytes = 0;  ///< absolute offset in the file (payloads may be unaligned)
  std::uint64_t size_bytes = 0;
  ByteRange range() const noexcept { return {begin_bytes, begin_bytes + size_bytes}; }
};

/// One file of a source, as named in errors and as it enters the plan id.
struct CatalogFile {
  std::string path;  ///< to open it
  std::string name;  ///< relative to the source directory
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  std::string header_sha256;  ///< hex, of the 8-byte length and the JSON header
};

/// Named tensors over files. Opening reads headers only. Tensors are sorted by name (bytewise).
struct Catalog {
  std::string location;  ///< as given by the user
  std::vector<CatalogFile> files;
  std::vector<TensorInfo> tensors;
  std::string config_text;  ///< config.json verbatim; empty if there is none
  std::vector<std::string>
      side_files;  ///< names of tokenizer, generation config, ... to carry along, sorted
  std::vector<std::string> notes;  ///< to be printed: ignored files and why

  /// Index of the tensor with this name. O(log n).
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;
};

/// Tensor names of a model that is not downloaded: its config.json and its index.
struct NameList {
  std::string location;
  std::string config_text;
  std::vector<std::string> names;  ///< sorted
};

/// The names of a directory that has config.json and model.safetensors.index.json and none of the
/// files that the index lists; nothing for any other location. Throws: bad_input (index), io.
std::optional<NameList> open_names(const std::string& location);

/// Opens a HuggingFace directory (with an index, one file, or several files and no index) or one
/// `.safetensors` file. The index and the headers must agree. Throws: not_found, bad_input,
/// corrupt, unsupported (only .bin/.pth/GGUF, adapters), io; each names file and tensor.
Catalog open_catalog(const std::string& location);

}  // namespace hfshard
