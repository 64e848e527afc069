#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/store/store.h"
#include "catalog/array.h"
#include "catalog/grid.h"
#include "catalog/object.h"
#include "catalog/per_leaf.h"
#include "catalog/tree_structure.h"

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/error.h"

namespace hfshard {

/// How arrays of one kind are split into pieces, and how pieces are encoded.
struct Cut {
  Grid grid;
  std::vector<std::string> codecs;  ///< the format's names, in encoding order
  /// Inner chunks exist only for partial reads: the piece on disk has no inner boundaries.
  bool only_runs = false;
  /// Any bytes of a piece can be read alone, since it has neither codecs nor a checksum.
  bool addressable = false;
};

/// An array as it is stored. Either one plain piece (packed, row-major, little-endian bytes in one
/// file), or pieces of a grid, which Checkpoint::open_piece finds.
struct TensorInfo : Array {
  static constexpr std::uint32_t kWhole = UINT32_MAX;
  std::uint32_t file = 0;         ///< for a plain piece, in Catalog::files
  std::uint32_t cut = kWhole;     ///< in Catalog::cuts; kWhole if plain
  std::uint64_t begin_bytes = 0;  ///< offset in the file, unaligned
  std::uint64_t size_bytes = 0;
  bool is_whole() const noexcept { return cut == kWhole; }
  ByteRange range() const noexcept { return {begin_bytes, begin_bytes + size_bytes}; }
};

/// The name of the one file that stands for a whole tree.
inline constexpr const char* kWholeTree = ".";

/// One file of a source, as errors and the plan id name it.
struct CatalogFile {
  StorePath path;    ///< opens it
  std::string name;  ///< relative to the source directory
  std::uint64_t size_bytes = 0;
  std::string version;               ///< FileIdentity's; not in the plan id
  std::string header_sha256;         ///< hex, of length and JSON header
  std::vector<InodeState> inodes{};  ///< FileIdentity's
  FileIdentity identity() const { return {size_bytes, version, inodes}; }
};

/// How an array was sharded when it was saved: for each dim the mesh axes, or none if it was whole.
struct ArraySharding {
  std::vector<std::vector<std::string>> mesh_axes;
  friend bool operator==(const ArraySharding&, const ArraySharding&) = default;
};
std::uint64_t heap_bytes(const ArraySharding& sharding);

/// One axis of a mesh of devices.
struct MeshAxis {
  std::string name;
  std::uint64_t size = 1;
};

/// Files of a checkpoint that are not part of the tree that is read: data iterators, metrics, other
/// trees, metadata of the run.
struct Beside {
  StorePath directory;
  std::vector<std::string> files;       ///< relative to it, sorted
  std::vector<std::string> empty;       ///< directories without files, relative to it
  StorePath root;                       ///< the directory of all steps
  std::vector<std::string> root_files;  ///< relative to it, sorted
  Json attributes;                      ///< the format's own, opaque to others
};

/// One more name of a stored array, for a second parameter of the model that shares its values.
struct SharedName {
  std::string name;
  std::string stored;  ///< the array's
};

/// The contents of a checkpoint. Opening one reads metadata only. Arrays are sorted by name
/// (bytewise).
struct Catalog {
  std::string location;  ///< as given by the user
  std::string root;      ///< directory of all steps that the user gave instead of `location`
  StorePath directory;   ///< base of side_files and file names
  Wording wording;
  std::vector<CatalogFile> files;
  std::vector<TensorInfo> tensors;
  std::vector<Cut> cuts;                ///< of arrays that aren't plain
  PerLeaf<ArraySharding> shardings;     ///< per array; empty if unknown
  std::vector<ObjectInfo> objects;      ///< sorted by name
  std::vector<StorePath> object_files;  ///< hold the objects
  /// Sorted. A name that is a single key of the saved state has no entry.
  std::vector<NestedName> nested;
  std::string writer;                   ///< the program that wrote it, if known
  Json attributes;                      ///< object of the format's metadata, or null
  std::string config_text;              ///< config.json verbatim, or empty
  std::string part;                     ///< "shard 1 of 2", if the model has more files
  std::vector<std::string> side_files;  ///< tokenizer and such, sorted
  /// Null if the format has no structure.
  std::shared_ptr<const TreeStructure> structure;
  Beside beside;                            ///< to be copied, if asked for
  std::vector<std::string> notes;           ///< for the user: ignored files and why
  std::vector<Error> lost;                  ///< missing files (Choice::despite_loss)
  std::vector<UnreadableArray> unreadable;  ///< arrays that are left out (Choice::without)
  std::vector<SharedName> shared;           ///< names that aren't in `tensors`

  /// Returns the index of the array with this name. O(log n).
  std::optional<std::uint32_t> find(std::string_view name) const noexcept;
  /// Returns the name of the file that holds an array, or the checkpoint's if it has no files.
  const std::string& file_name(const TensorInfo& array) const noexcept;
  /// Returns the pieces of an array.
  Grid grid_of(std::uint32_t array) const;
  /// Returns the pieces as they are on disk, without inner chunks that exist only in memory
  /// (Cut::only_runs).
  Grid stored_grid_of(std::uint32_t array) const;
  /// Returns the codecs of an array. Empty for a plain one.
  const std::vector<std::string>& codecs_of(std::uint32_t array) const;
};

/// Returns the heap that a catalog holds (base/heap.h).
std::uint64_t heap_bytes(const Catalog& catalog);

/// The tensor names of a model that isn't downloaded, from its config.json and its index.
struct NameList {
  std::string location;
  std::string config_text;
  std::vector<std::string> names;  ///< sorted
};

}  // namespace hfshard
