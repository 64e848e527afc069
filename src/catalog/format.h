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
#include "catalog/manifest_head.h"
#include "catalog/per_leaf.h"
#include "catalog/piece.h"

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/encoding.h"

namespace hfshard {

/// How arrays that are stored whole (FileLayout::whole_arrays) are put into data files: of each
/// file the bytes in front, then its arrays one behind the other.
struct ArrayFiles {
  std::vector<std::uint32_t> order;  ///< the arrays of all files, in the order of their bytes
  std::vector<std::uint32_t> first;  ///< of each file, into `order`; then the end
  std::vector<std::uint64_t> leading_bytes;  ///< of each file
  std::span<const std::uint32_t> in_file(std::uint32_t file) const {
    return std::span(order).subspan(first[file], first[file + 1] - first[file]);
  }
};

/// What a format is told when it writes its metadata.
struct TreeSpec {
  const std::vector<Leaf>* leaves = nullptr;  ///< sorted by path
  const PerLeaf<Grid>* grids = nullptr;       ///< one per leaf
  const ArrayFiles* files = nullptr;          ///< of a format that stores arrays whole
  std::uint64_t step = 0;
  std::string plan_id;   ///< 64 hex digits
  Json custom_metadata;  ///< object: plan id, root digest, what the scheme's loaders read
  Encoding encoding;
  TreeExtras extras;
  Json beside;          ///< Beside::attributes of what the step directory has beside the tree
  bool direct = false;  ///< the step directory is the item directory too
};

/// Which chunk of which leaf.
struct ChunkOf {
  const Leaf* leaf = nullptr;
  const Grid* grid = nullptr;
  Shape at;  ///< its coordinates in the grid
};

/// A metadata file: path relative to the step directory, and a function that streams its bytes.
struct SideFile {
  std::string path;
  std::function<void(const ByteSink&)> write;
};

/// What plan and run must know of a format before there is anything to describe. Names are relative
/// and never change: resumed runs and workers find each other's files by them.
struct FileLayout {
  bool has_steps = true;    ///< else the place that is written is the one step itself
  std::string step_prefix;  ///< of the name of a step's directory, which ends in its number
  std::string item;         ///< below it: what all further names are relative to; empty: itself
  std::string data_prefix;  ///< "d/": of the name of a data file, its number and a suffix follow
  std::string data_suffix;
  /// "-of-": numbers begin with 1, and behind one stands how many files there are. Empty: they
  /// begin with 0.
  std::string data_count;
  std::string single_file;  ///< name of a data file that is the only one, if it has its own
  std::uint64_t alignment_bytes = 0;  ///< pieces start at multiples; 0: no matter, the plan chooses
  std::string leading;                ///< bytes at the front of every data file
  /// Names of arrays are any text; else they are keys of a tree, dotted.
  bool flat_names = false;
  /// An array is one piece: its packed row-major bytes and nothing else. Format::array_files says
  /// where they lie, at any byte, and write_leading what stands in front of them.
  bool whole_arrays = false;
  bool inner_chunks = true;  ///< whether chunks may be cut into inner ones
  /// Why no chunk is compressed; empty: Encoding::zstd_level says whether.
  std::string uncompressed;
  /// Why nobody chooses whether chunks have a checksum; empty: Encoding::checksum says it.
  std::string fixed_checksum;
  /// Whether its loaders cut a dim that a mesh does not divide, so that its last shard is shorter:
  /// by the quotient rounded up. Else they refuse such a mesh.
  bool ceil_shards = false;
  /// Which dims its loaders cut where nothing says what dims mean, as logical axis rules for axes
  /// of the names dim_0, dim_1, ...; empty: none.
  std::string axis_rules;
  /// Below the place that is written: where config, tokenizer and such of the source go; empty:
  /// beside the data files, since loaders look for them there.
  std::string side_directory = "hf";
  /// Where files of a source have names, if pieces may lie in those.
  std::optional<std::string> linked_prefix;
  /// The metadata file without which there is no checkpoint. Where a checkpoint gets its files one
  /// by one (link --in-place), it comes last.
  std::string commit_file;
  /// Who loads this format refuses to read so many bytes of an array for one shard.
  std::uint64_t refused_request_bytes = UINT64_MAX;

  /// Empty if there are no steps.
  std::string step_directory(std::uint64_t step) const;
  /// Of so many files. Five digits at least.
  std::string data_file(std::uint32_t number, std::uint32_t files) const;
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

/// The step of a place that has this number. Throws: usage (the place has no steps), not_found
/// (with those that there are).
const Found::Step& step_numbered(std::span<const Found::Step> steps, std::uint64_t number,
                                 const StorePath& place);

/// Which of the checkpoints at a place is meant, where there are several.
struct Choice {
  std::optional<std::uint64_t> step;  ///< absent: the highest
  std::string items;                  ///< the name of one of a step's trees; empty: the only one
  /// Open it although data files are missing or cut short: reading what they lack fails, and arrays
  /// that nothing describes any more are Catalog::lost.
  bool despite_loss = false;
  bool usual_items = false;  ///< of several trees that which loaders take by itself
  FileGlobs files = {};      ///< which files of a place that has several sets of weights
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
  /// The same for one of several. Throws: usage (a step, in a place that has none), not_found (with
  /// what there is), as open.
  virtual std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const;
  /// Of a format that has neither steps nor items. Throws: usage.
  void check_choice(const StorePath& path, const Choice& choice) const;
  /// What lies beside the tree that open_one opens. Throws: as open_one; unsupported (something
  /// that has no place beside a tree which this format writes).
  virtual Beside beside(const StorePath& path, const Choice& choice) const;
  /// Whether its arrays are plain pieces (TensorInfo::is_whole), which a run reads where they lie.
  virtual bool plain() const { return false; }
  /// Whether this release writes the format: what follows is for those only; others throw
  /// unsupported.
  virtual bool writes() const = 0;
  /// What surrounds a chunk on disk. Throws: unsupported (a dtype or rank the format lacks, by
  /// name).
  virtual PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const = 0;
  /// Completes one chunk in place: cells are filled, head, suffixes and tail are not. `stored` has
  /// stored_bytes(), `scratch` the form's scratch_bytes. Returns the length of the chunk, which is
  /// at the front of `stored`: all of it unless it is compressed, or the format stores edge chunks
  /// as short as they are; the rest is zeros then. Called concurrently.
  virtual std::uint64_t encode(const PieceForm& form, const ChunkOf& chunk,
                               std::span<std::byte> stored, std::span<std::byte> scratch) const = 0;
  /// The side files that make the data files a checkpoint, in commit order; the last one publishes.
  /// Each streams itself; none is held whole beyond names. Paths are relative to the step directory
  /// ("items/manifest.ocdbt").
  virtual std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const = 0;
  virtual FileLayout layout() const = 0;
  /// The scheme whose names its loaders look for: what is written unless another one is asked for.
  virtual std::string_view scheme() const { return "maxtext"; }
  /// Of a format without steps: whether a file of that name is one that it writes, whatever the
  /// plan.
  virtual bool writes_name(std::string_view /*name*/) const { return false; }
  /// Of a format that stores arrays whole: puts leaves into files of at most `file_bytes` of
  /// arrays, unless one has more. `order` is the order in which reading them is cheapest.
  virtual ArrayFiles array_files(const std::vector<Leaf>& leaves,
                                 std::span<const std::uint32_t> order,
                                 std::uint64_t file_bytes) const;
  /// Of such a format: what stands in front of a file with these leaves. The same each time.
  virtual void write_leading(const std::vector<Leaf>& leaves,
                             std::span<const std::uint32_t> in_file, const ByteSink& sink) const;
  /// Whether what is written is kept nowhere: then nothing is staged and published.
  virtual bool discards() const { return false; }
};

}  // namespace hfshard
