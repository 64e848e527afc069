#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/store.h"
#include "catalog/array.h"
#include "catalog/grid.h"
#include "catalog/per_leaf.h"

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// How arrays of one kind are cut into pieces, and what a piece goes through.
struct Cut {
  Grid grid;
  std::vector<std::string> codecs;  ///< as the format names them, in the order of encoding
  /// Inner chunks are runs of a piece, for who reads parts of it: nothing on disk divides it.
  bool only_runs = false;
  /// Any bytes of a piece can be read by themselves: it is neither coded nor under a checksum.
  bool addressable = false;
};

/// An array as it is stored: one plain piece (packed, row-major, little-endian bytes in one file),
/// or pieces of a grid, which Checkpoint::open_piece finds.
struct TensorInfo : Array {
  static constexpr std::uint32_t kWhole = UINT32_MAX;
  std::uint32_t file = 0;         ///< of one plain piece: index into Catalog::files
  std::uint32_t cut = kWhole;     ///< index into Catalog::cuts; kWhole: one plain piece
  std::uint64_t begin_bytes = 0;  ///< absolute offset in the file (payloads may be unaligned)
  std::uint64_t size_bytes = 0;
  bool is_whole() const noexcept { return cut == kWhole; }
  ByteRange range() const noexcept { return {begin_bytes, begin_bytes + size_bytes}; }
};

/// One file of a source, as named in errors and as it enters the plan id.
struct CatalogFile {
  StorePath path;    ///< to open it
  std::string name;  ///< relative to the source directory
  std::uint64_t size_bytes = 0;
  std::string version;        ///< FileIdentity's; not part of the plan id
  std::string header_sha256;  ///< hex, of the 8-byte length and the JSON header
  FileIdentity identity() const { return {size_bytes, version}; }
};

/// How an array was sharded when it was saved: per dim the axes of a mesh, none where it was whole.
struct ArraySharding {
  std::vector<std::vector<std::string>> mesh_axes;
  friend bool operator==(const ArraySharding&, const ArraySharding&) = default;
};
std::uint64_t heap_bytes(const ArraySharding& sharding);

/// What a checkpoint consists of. Opening one reads metadata only. Arrays are sorted by name
/// (bytewise).
/// What a checkpoint holds beside the tree that is read of it: data iterators, metrics, other
/// trees.
struct Beside {
  StorePath directory;
  std::vector<std::string> files;  ///< relative to it, sorted
  Json attributes;  ///< what its format says of them elsewhere; of no meaning to others
};

/// What a checkpoint consists of.
struct Catalog {
  std::string location;  ///< as given by the user
  StorePath directory;   ///< that side_files and names of files are relative to
  Wording wording;
  std::vector<CatalogFile> files;
  std::vector<TensorInfo> tensors;
  std::vector<Cut> cuts;             ///< of the arrays that are not one plain piece
  PerLeaf<ArraySharding> shardings;  ///< per array, where the checkpoint says it; else empty
  std::string writer;                ///< what wrote it, where it says so
  Json attributes;                   ///< object of what the format keeps beside the arrays; or null
  std::string config_text;           ///< config.json verbatim; empty if there is none
  std::vector<std::string>
      side_files;  ///< names of tokenizer, generation config, ... to carry along, sorted
  Beside beside;   ///< to be copied as it is; empty unless that is asked for
  std::vector<std::string> notes;  ///< to be printed: ignored files and why
  std::vector<Error> lost;         ///< files without which it was opened (Choice::despite_loss)

  /// Index of the array with this name. O(log n).
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;
  /// Name of the file that holds an array; of the checkpoint, where it has no files.
  const std::string& file_name(const TensorInfo& array) const noexcept;
  /// The pieces of an array.
  Grid grid_of(std::uint32_t array) const;
  /// The same as it lies on disk: without inner chunks where they are runs only.
  Grid stored_grid_of(std::uint32_t array) const;
  /// What they went through; empty for plain ones.
  const std::vector<std::string>& codecs_of(std::uint32_t array) const;
};

/// Heap that a catalog holds (base/heap.h).
std::uint64_t heap_bytes(const Catalog& catalog);

/// Tensor names of a model that is not downloaded: its config.json and its index.
struct NameList {
  std::string location;
  std::string config_text;
  std::vector<std::string> names;  ///< sorted
};

}  // namespace hfshard
