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
#include "bytes/store.h"
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
  Json custom_metadata;  ///< object: plan id, root digest, what the scheme's loaders read
  Encoding encoding;
  TreeExtras extras;
  bool direct = false;  ///< the step directory is the item directory too
};

/// A metadata file: path relative to the step directory, and a function that streams its bytes.
struct SideFile {
  std::string path;
  std::function<void(const ByteSink&)> write;
};

/// What plan and run must know of a format before there is anything to describe. Names are relative
/// and never change: resumed runs and workers find each other's files by them.
struct FileLayout {
  std::string step_prefix;  ///< of the name of a step's directory, which ends in its number
  std::string item;         ///< below it: what all further names are relative to; empty: itself
  std::string data_prefix;  ///< "d/": of the name of a data file, its number and a suffix follow
  std::string data_suffix;
  std::uint64_t alignment_bytes = 0;  ///< pieces start at multiples; 0: no matter, the plan chooses
  std::string leading;                ///< bytes at the front of every data file
  /// Where files of a source have names, if pieces may lie in those.
  std::optional<std::string> linked_prefix;
  /// The metadata file without which there is no checkpoint. Where a checkpoint gets its files one
  /// by one (link --in-place), it comes last.
  std::string commit_file;
  /// Who loads this format refuses to read so many bytes of an array for one shard.
  std::uint64_t refused_request_bytes = UINT64_MAX;

  std::string step_directory(std::uint64_t step) const;
  /// Five digits at least.
  std::string data_file(std::uint32_t number) const;
  /// Where the first piece of a data file may lie, with what `alignment` the plan has.
  std::uint64_t begin_bytes(std::uint64_t alignment) const noexcept;
};

/// Which checkpoint a place means.
struct Found {
  struct Step {
    std::uint64_t number = 0;
    std::string directory;   ///< in the store that was looked at
    bool published = false;  ///< the file that commits the step is there
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::string directory;  ///< that carries it: a step's, or the place itself
  /// That it was published with. Empty if another program wrote it, and if the file that commits is
  /// not there or not of this plan.
  std::string plan_id;
  std::vector<Step> steps;  ///< below the place, by number; the last is meant
};

/// One checkpoint format. Stateless and thread-safe; implementations live in src/format/<name>/.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;
  /// Whether there is a checkpoint of this format (an unfinished or damaged one too, of which
  /// `open` says what is wrong), and which. Throws: io.
  virtual std::optional<Found> recognise(const StorePath& path) const = 0;
  /// Opens what was recognised; reads metadata only. Throws: corrupt, not_found, unsupported, io.
  virtual std::unique_ptr<Checkpoint> open(const StorePath& path) const = 0;
  /// Whether its arrays are plain pieces (TensorInfo::is_whole), which a run reads where they lie.
  virtual bool plain() const { return false; }
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
  virtual FileLayout layout() const = 0;
  /// Whether what is written is kept nowhere: then nothing is staged and published.
  virtual bool discards() const { return false; }
};

}  // namespace hfshard
