#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/output.h"
#include "ops/transfer.h"
#include "plan/grid.h"
#include "plan/per_leaf.h"
#include "plan/place.h"

#include "hfshard/dtype.h"
#include "hfshard/plan.h"

namespace hfshard {

/// What a target is told when it writes its metadata.
struct TreeSpec {
  const std::vector<Leaf>* leaves = nullptr;  ///< sorted by path
  const PerLeaf<Grid>* grids = nullptr;       ///< one per leaf
  std::uint64_t step = 0;
  std::string plan_id;   ///< 64 hex digits
  Json custom_metadata;  ///< object: scan_layers, plan id, root digest
  Encoding encoding;
  bool with_train_state = true;  ///< MaxText's `step` scalar and empty `opt_state`
  bool direct = false;           ///< the step directory is the item directory too
};

/// A metadata file: path relative to the step directory, and a function that streams its bytes.
struct SideFile {
  std::string path;
  std::function<void(const ByteSink&)> write;
};

/// One leaf of an opened checkpoint.
struct OpenedLeaf {
  std::string path;  ///< dotted
  DType dtype = DType::bf16;
  Shape shape;
  Shape chunk_shape;
  Shape inner_shape;  ///< equal to chunk_shape when there are no inner chunks
  std::vector<std::string> codecs;
};

/// A checkpoint of some format, opened for reading: metadata only until read_chunk. Thread-safe.
class OpenedCheckpoint {
 public:
  virtual ~OpenedCheckpoint() = default;
  virtual const std::vector<OpenedLeaf>& leaves() const = 0;  ///< sorted by path
  virtual const Json& custom_metadata() const = 0;
  /// Where a chunk is stored ("items/d/00003"), or nothing if its key is missing.
  virtual bool has_chunk(std::uint32_t leaf, const Shape& chunk) const = 0;
  /// Reads and decodes one chunk, packed row-major of the leaf's chunk_shape, into `out` (exact
  /// size), using only `scratch` (scratch_bytes of the leaf) beside it. Throws: corrupt (checksum,
  /// truncated) and not_found (missing), naming leaf, chunk, file and byte range.
  virtual void read_chunk(std::uint32_t leaf, const Shape& chunk, std::span<std::byte> out,
                          std::span<std::byte> scratch) const = 0;
  /// Largest scratch that read_chunk needs for this leaf.
  virtual std::uint64_t scratch_bytes(std::uint32_t leaf) const = 0;
};

/// One checkpoint format. Stateless and thread-safe; implementations live in src/target/<name>/.
class Target {
 public:
  virtual ~Target() = default;
  virtual std::string_view name() const = 0;
  /// What surrounds a chunk on disk. Throws: unsupported (a dtype or rank the format lacks, by
  /// name).
  virtual ChunkForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const = 0;
  /// Completes one chunk in place: cells are filled, suffixes and tail are not. `stored` has
  /// stored_bytes(), `scratch` the form's scratch_bytes. Returns the length of the chunk, which is
  /// at the front of `stored`: all of it unless it is compressed. Called concurrently.
  virtual std::uint64_t encode(const ChunkForm& form, std::span<std::byte> stored,
                               std::span<std::byte> scratch) const = 0;
  /// The side files that make the data files a checkpoint, in commit order; the last one publishes.
  /// Each streams itself; none is held whole beyond names. Paths are relative to the step directory
  /// ("items/manifest.ocdbt").
  virtual std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const = 0;
  /// Where data files go, relative to the step directory ("items"); not for TreeSpec::direct.
  virtual std::string data_root() const = 0;
  /// The metadata file without which a directory is no checkpoint, in the item directory.
  virtual std::string commit_file() const = 0;
  /// Opens a checkpoint directory (root, step or item directory). Throws: corrupt, not_found,
  /// unsupported, io.
  virtual std::unique_ptr<OpenedCheckpoint> open(const std::string& path) const = 0;
};

}  // namespace hfshard
