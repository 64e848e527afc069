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
#include "bytes/local/output.h"
#include "bytes/store/store.h"
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

/// The data files of a format that stores arrays whole (FileLayout::whole_arrays). Each file has
/// leading bytes, and then its arrays in a row.
struct ArrayFiles {
  std::vector<std::uint32_t> order;          ///< all arrays, in byte order
  std::vector<std::uint32_t> first;          ///< per file, in `order`; then the end
  std::vector<std::uint64_t> leading_bytes;  ///< per file
  std::span<const std::uint32_t> in_file(std::uint32_t file) const {
    return std::span(order).subspan(first[file], first[file + 1] - first[file]);
  }
};

/// The objects of a source that the output keeps, in a row in their own data file.
struct CarriedObjects {
  std::string file;                      ///< path, like those of data files
  std::vector<const ObjectInfo*> items;  ///< sorted by name
};

/// The input of a format that writes its metadata.
struct TreeSpec {
  const std::vector<Leaf>* leaves = nullptr;  ///< sorted by path
  const PerLeaf<Grid>* grids = nullptr;       ///< one per leaf
  const ArrayFiles* files = nullptr;          ///< if arrays are stored whole
  std::uint64_t step = 0;
  std::string plan_id;   ///< 64 hex digits
  Json custom_metadata;  ///< object: plan id, root digest, loaders' keys
  Encoding encoding;
  TreeExtras extras;
  CarriedObjects objects;                           ///< if the format holds objects
  const std::vector<NestedName>* nested = nullptr;  ///< keys of names, or null
  Json beside;                                      ///< Beside::attributes
  std::string item;                                 ///< the item directory, if any
  /// Structure that a reshard copies from its source, or null for dicts of arrays. Its arrays have
  /// the names of leaves.
  std::shared_ptr<const TreeStructure> structure;
  std::vector<MeshAxis> mesh;        ///< from --mesh, or empty
  PerLeaf<ArraySharding> shardings;  ///< per leaf on `mesh`, or empty
  bool direct = false;               ///< the step directory is the item directory
};

/// One chunk of a leaf.
struct ChunkOf {
  const Leaf* leaf = nullptr;
  const Grid* grid = nullptr;
  Shape at;  ///< coordinates in the grid
};

/// A metadata file: its path relative to the step directory, and a function that streams its bytes.
struct SideFile {
  std::string path;
  std::function<void(const ByteSink&)> write;
};

/// Properties of a format that plan and run need before they have anything to describe. Names are
/// relative and never change: resumed runs and workers find each other's files by them.
struct FileLayout {
  /// If false, the output directory is the only step.
  bool has_steps = true;
  /// Prefix for the name of a step's directory; the step's number follows. A format without steps
  /// uses it for the directories of several outputs.
  std::string step_prefix;
  unsigned step_digits = 0;  ///< the fewest that the number has; it is padded with zeros
  /// Directory in the step, base of all names below. Empty for the step itself.
  std::string item;
  std::string data_prefix;  ///< "d/", before a data file's number
  std::string data_suffix;
  /// "-of-" if file numbers begin with 1 and the number of files follows. Empty if they begin with
  /// 0.
  std::string data_count;
  std::string single_file;  ///< name for a single data file, if special
  /// Pieces start at multiples of it. 0 if the plan may choose.
  std::uint64_t alignment_bytes = 0;
  std::string leading;  ///< bytes at the front of every data file
  /// Array names are any text. If false, they are dotted keys of a tree.
  bool flat_names = false;
  bool structure = false;  ///< stores a TreeStructure
  /// Each array is one piece of packed row-major bytes. Format::array_files places them, and
  /// write_leading writes the bytes in front of them.
  bool whole_arrays = false;
  bool objects = false;      ///< stores CarriedObjects
  bool inner_chunks = true;  ///< can split chunks into inner ones
  /// Why chunks are never compressed. Empty if Encoding::zstd_level decides.
  std::string uncompressed;
  /// Why checksums can't be chosen. Empty if Encoding::checksum decides.
  std::string fixed_checksum;
  /// Loaders split a dim that a mesh doesn't divide with ceiling division, so the last shard is
  /// smaller. If false, they refuse such a mesh.
  bool ceil_shards = false;
  /// Default logical axis rules for dims without a meaning, whose axes are dim_0, dim_1, ... Empty
  /// for none.
  std::string axis_rules;
  /// Directory in the output for config, tokenizer and such. Empty if loaders expect them next to
  /// the data files.
  std::string side_directory = "hf";
  /// Directory for links to the source's files, if pieces can be in those.
  std::optional<std::string> linked_prefix;
  /// The metadata file that makes a directory a checkpoint. If files are placed one by one
  /// (link --in-place), it comes last.
  std::string commit_file;
  /// Loaders refuse to read so many bytes of an array for one shard.
  std::uint64_t refused_request_bytes = UINT64_MAX;

  /// Returns the name of a step's directory. Empty if there are no steps.
  std::string step_directory(std::uint64_t step) const;
  /// Returns the name of a data file, with at least five digits. `files`: how many there are.
  std::string data_file(std::uint32_t number, std::uint32_t files) const;
  /// Returns the first offset for pieces in a data file, given the plan's `alignment`.
  std::uint64_t begin_bytes(std::uint64_t alignment) const noexcept;
};

/// The checkpoint at a place.
struct Found {
  struct Step {
    std::uint64_t number = 0;
    std::string directory;   ///< in the store that was searched
    bool published = false;  ///< its commit file exists
    friend bool operator==(const Step&, const Step&) = default;
  };
  std::string directory;  ///< of the step, or the place itself
  /// The plan id of the run that published it. Empty if another program wrote it, or if the commit
  /// file is missing or has another plan id.
  std::string plan_id;
  std::vector<Step> steps;  ///< by number; the last is the default
};

/// Returns the step with this number. Throws: usage (the place has no steps), not_found (with the
/// steps that exist).
const Found::Step& step_numbered(std::span<const Found::Step> steps, std::uint64_t number,
                                 const StorePath& place);

/// Selects one of several checkpoints at a place.
struct Choice {
  std::optional<std::uint64_t> step;  ///< the highest if absent
  std::string items;                  ///< one of a step's trees, or empty
  /// Open a checkpoint with missing or truncated data files. Reading their arrays fails. Arrays
  /// that nothing describes are in Catalog::lost.
  bool despite_loss = false;
  bool usual_items = false;  ///< take the tree that loaders default to, or else the first
  /// Ignore the trees that trainers save in addition to a model, such as the optimizer's state.
  bool model_alone = false;
  FileGlobs files = {};   ///< selects one of several sets of weights
  std::string root = {};  ///< key of the dict of tensors in a file of torch.save, or empty
  /// Globs of arrays that aren't needed. If a header describes one of them in a way that can't be
  /// read, it is in Catalog::unreadable.
  std::vector<std::string> without = {};
};

/// One checkpoint format. Stateless and thread-safe; implementations live in src/format/<name>/.
class Format {
 public:
  virtual ~Format() = default;
  virtual std::string_view name() const = 0;
  /// Finds a checkpoint of this format. Also finds unfinished and damaged ones; `open` says what is
  /// wrong with those. Throws: io.
  virtual std::optional<Found> recognise(const StorePath& path) const = 0;
  /// Opens a checkpoint that `recognise` found. Reads metadata only. Throws: corrupt, not_found,
  /// unsupported, io.
  virtual std::unique_ptr<Checkpoint> open(const StorePath& path) const = 0;
  /// Opens one of several. Throws: usage (a step, in a place without steps), not_found (with the
  /// names that exist), as open.
  virtual std::unique_ptr<Checkpoint> open_one(const StorePath& path, const Choice& choice) const;
  /// Refuses choices for a format that has neither steps nor items. Throws: usage.
  void check_choice(const StorePath& path, const Choice& choice) const;
  /// Says why a step that Found lists is incomplete: "is empty". Looks at file names only. Empty if
  /// the step is complete. Throws: io.
  virtual std::string why_incomplete(const StorePath& step) const;
  /// Lists the files next to the tree that open_one opens. Throws: as open_one; unsupported (this
  /// format has no place for them).
  virtual Beside beside(const StorePath& path, const Choice& choice) const;
  /// Lists the files in which the root of a step keeps metadata of the run, relative to it, sorted.
  /// Throws: io.
  virtual std::vector<std::string> root_files(const StorePath& /*root*/) const { return {}; }
  /// Lists the step's items except the tree that open_one opens, sorted. Throws: as open_one.
  virtual std::vector<std::string> other_items(const StorePath& /*path*/,
                                               const Choice& /*choice*/) const {
    return {};
  }
  /// Returns whether a place is itself a tree of arrays, rather than a directory of such trees.
  virtual bool is_tree(const StorePath& path) const { return recognise(path).has_value(); }
  /// Returns whether a place is a step with named items.
  virtual bool has_items(const StorePath& /*path*/) const { return false; }
  /// Returns the metadata files of a tree that opening it parses whole. They may be absent. Throws:
  /// as open.
  virtual std::vector<StorePath> parsed_files(const StorePath& /*path*/) const { return {}; }
  /// Returns whether a file has nested dicts, of which Choice::root selects one.
  virtual bool takes_root() const { return false; }
  /// Returns whether its arrays are plain pieces (TensorInfo::is_whole), which a run reads in
  /// place.
  virtual bool plain() const { return false; }
  /// Returns whether hfshard writes the format. The members below throw unsupported if it doesn't.
  virtual bool writes() const = 0;
  /// Returns the layout of a chunk on disk. Throws: unsupported (names a dtype or rank that the
  /// format doesn't have).
  virtual PieceForm form(const Leaf& leaf, const Grid& grid, const Encoding& encoding) const = 0;
  /// Completes one chunk in place: adds head, suffixes and tail to the filled cells. `stored` has
  /// stored_bytes(), `scratch` the form's scratch_bytes. Returns the length of the chunk, at the
  /// front of `stored`. It is shorter than `stored` if the chunk is compressed, or if the format
  /// truncates edge chunks; zeros follow. Called concurrently.
  virtual std::uint64_t encode(const PieceForm& form, const ChunkOf& chunk,
                               std::span<std::byte> stored, std::span<std::byte> scratch) const = 0;
  /// Returns the metadata files in commit order; the last one publishes. Each streams its bytes.
  /// Paths are relative to the step directory ("items/manifest.ocdbt").
  virtual std::vector<SideFile> metadata(const TreeSpec& tree, const Placements& placed) const = 0;
  virtual FileLayout layout() const = 0;
  /// Returns the default scheme: the one whose names the format's loaders expect.
  virtual std::string_view scheme() const { return "maxtext"; }
  /// Returns whether the format writes a file with that name, for any plan. For formats without
  /// steps.
  virtual bool writes_name(std::string_view /*name*/) const { return false; }
  /// Puts leaves into files with at most `file_bytes` of arrays, unless one array has more. For
  /// formats that store arrays whole. `order` is the order in which reading them is cheapest.
  virtual ArrayFiles array_files(const std::vector<Leaf>& leaves,
                                 std::span<const std::uint32_t> order,
                                 std::uint64_t file_bytes) const;
  /// Writes the bytes at the front of a file with these leaves. The bytes are the same each time.
  /// For formats that store arrays whole.
  virtual void write_leading(const std::vector<Leaf>& leaves,
                             std::span<const std::uint32_t> in_file, const ByteSink& sink) const;
  /// Returns whether the format discards its data, so that nothing is staged and published.
  virtual bool discards() const { return false; }
};

}  // namespace hfshard
