#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/output.h"
#include "catalog/array.h"
#include "catalog/checkpoint.h"
#include "catalog/grid.h"
#include "catalog/per_leaf.h"
#include "catalog/piece.h"

#include "hfshard/dtype.h"
#include "hfshard/encoding.h"

namespace hfshard {

/// What a format is told when it writes its metadata.
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

/// Which checkpoint a place means.
struct Found {
  struct Step {
    std::uint64_t number = 0;
    std::string directory;
    bool published = false;  ///< the file that commits the step is there
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::string directory;    ///< that carries it: a step's, or the place itself
  std::string plan_id;      ///< that it was published with; empty if another program wrote it
  std::vector<Step> steps;  ///< below the place, by number; the last is meant
};

/// One checkpoint format. Stateless and thread-safe; implementations live in src/format/<name>/.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;
  /// Whether there is a checkpoint of this format (an unfinished or damaged one too, of which
  /// `open` says what is wrong), and which. Throws: io.
  virtual std::optional<Found> recognise(const std::string& path) const = 0;
  /// Opens what was recognised; reads metadata only. Throws: corrupt, not_found, unsupported, io.
  virtual std::unique_ptr<Checkpoint> open(const std::string& path) const = 0;
  /// Whether this release writes the format: what follows is for those only; others throw
  /// unsupported.
  virtual bool writes() const = 0;
  /// What surrounds a chunk on disk. Throws: unsupported (a dtype or rank the format lacks, by
  /// name).
  virtual PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const = 0;
  /// Completes one chunk in place: cells are filled, suffixes and tail are not. `stored` has
  /// stored_bytes(), `scratch` the form's scratch_bytes. Returns the length of the chunk, which is
  /// at the front of `stored`: all of it unless it is compressed. Called concurrently.
  virtual std::uint64_t encode(const PieceForm& form, std::span<std::byte> stored,
                               std::span<std::byte> scratch) const = 0;
  /// The side files that make the data files a checkpoint, in commit order; the last one publishes.
  /// Each streams itself; none is held whole beyond names. Paths are relative to the step directory
  /// ("items/manifest.ocdbt").
  virtual std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const = 0;
  /// Where data files go, relative to the step directory ("items"); not for TreeSpec::direct.
  virtual std::string data_root() const = 0;
  /// The metadata file without which a directory is no checkpoint, in the item directory.
  virtual std::string commit_file() const = 0;
  /// True if the commit file is there and is the one that a plan has written. Throws: io.
  virtual bool committed_by(const std::string& item, const std::string& plan_id) const = 0;
};

}  // namespace hfshard
