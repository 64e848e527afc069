#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "catalog/format.h"
#include "catalog/per_leaf.h"
#include "plan/compile/model.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"
#include "plan/layout/split_arrays.h"
#include "plan/layout/unit.h"

namespace hfshard {

/// A unit of a layout, by position.
struct UnitRef {
  std::uint32_t group = 0;
  std::uint64_t unit = 0;
  friend bool operator==(const UnitRef&, const UnitRef&) = default;
};

/// Totals to show before anything moves.
struct LayoutTotals {
  std::uint64_t tensors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t source_bytes = 0;    ///< read, with short holes and scales
  std::uint64_t shared_tensors = 0;  ///< used and read by several leaves
  std::uint64_t output_bytes = 0;    ///< data files, with alignment
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  std::uint64_t largest_need_bytes = 0;  ///< of one unit: region and scratch
  /// The most disk that the unpacked arrays of one unit take.
  std::uint64_t unpacked_bytes = 0;
  std::uint64_t linked_leaves = 0;  ///< chunks are bytes of source files
  std::uint64_t linked_bytes = 0;
  std::uint64_t linked_chunks = 0;
};

/// The grids and units of a model's leaves.
struct CutLeaves {
  PerLeaf<Grid> grids;
  PerLeaf<UnitForm> units;  ///< without groups if not moved
  SplitArrays split{};
};

/// The place of an array's plain, row-major bytes.
struct ArrayPlace {
  std::uint32_t file = 0;  ///< in the catalog, or from Layout::unpacked
  std::uint64_t begin_bytes = 0;
};

/// Format::array_files with a fixed file size, so that plan doesn't depend on targets.
using ArrayFilesFunction = std::function<ArrayFiles(const std::vector<Leaf>& leaves,
                                                    std::span<const std::uint32_t> order)>;

/// The places of all chunks of a model. The units of all leaves are consecutive, in the order of
/// the source, in one address space. It is cut into data files, which are runs of whole units.
/// Immutable; its memory grows with names, never with chunks or elements. Compressed chunks have
/// their maximum size in the address space (run/engine/packing.h). A plan is one. Reading an output
/// again uses another layout of the same model, cut like the output.
class Layout {
 public:
  /// Orders the units, places them, cuts the files and counts. `packed`: chunks will be compressed.
  /// `files` is the format's layout of data files, empty for an output that is read. `put` is for a
  /// format that stores arrays whole. Throws: limit (too many groups, or an unrealistic output
  /// size).
  Layout(std::shared_ptr<const Model> model, CutLeaves cut, const Limits& limits, bool packed,
         FileLayout files = {}, const ArrayFilesFunction& put = {});

  virtual ~Layout() = default;
  Layout(const Layout&) = default;
  Layout(Layout&&) = default;
  Layout& operator=(const Layout&) = delete;
  Layout& operator=(Layout&&) = delete;

  /// Returns the heap bytes that it holds, with its model (base/heap.h): the control plane of a
  /// run.
  virtual std::uint64_t heap_bytes() const;

  const Model& model() const noexcept { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const noexcept { return model_; }
  const Catalog& catalog() const noexcept { return model_->catalog(); }
  const Limits& limits() const noexcept { return limits_; }
  const PerLeaf<Grid>& grids() const noexcept { return cut_.grids; }
  const PerLeaf<UnitForm>& units() const noexcept { return cut_.units; }
  const SplitArrays& split() const noexcept { return cut_.split; }
  /// Returns the arrays that are unpacked during their use, ascending. Each of their parts is one
  /// file.
  const std::vector<UnpackedForm>& unpacked() const noexcept { return cut_.split.unpacked; }
  /// Returns whether units read an array piece by piece: stored pieces, or pieces of an unpacked
  /// array.
  bool reads_pieces(std::uint32_t array) const;
  /// Returns the place of an array that is one plain piece, or that is unpacked. For the latter, it
  /// is that of the first part's first piece.
  ArrayPlace place_of(std::uint32_t array) const;
  /// Returns the groups in source order, with ascending addresses.
  const std::vector<Group>& groups() const noexcept { return groups_; }
  /// Returns the address of each file's first unit, then the end of the last.
  const std::vector<std::uint64_t>& file_begin() const noexcept { return file_begin_; }
  const LayoutTotals& totals() const noexcept { return totals_; }
  const FileLayout& files() const noexcept { return files_; }
  /// Null unless the format stores arrays whole.
  const ArrayFiles* array_files() const noexcept { return arrays_ ? &*arrays_ : nullptr; }
  /// Returns whether chunks are compressed, so their places depend on writing.
  bool is_packed() const noexcept { return packed_; }

  /// Returns the number of data files that the run writes.
  std::uint32_t data_files() const noexcept {
    return static_cast<std::uint32_t>(file_begin_.size() - 1);
  }
  std::uint64_t end_address() const noexcept { return file_begin_.back(); }
  std::uint64_t address_of(const UnitRef& ref) const;
  /// Returns the data file with an address below end_address().
  std::uint32_t file_at(std::uint64_t address) const;
  /// Returns the offset of an address in its data file.
  std::uint64_t offset_in(std::uint32_t file, std::uint64_t address) const {
    return begin_bytes(file) + address - file_begin_[file];
  }
  /// Returns the bytes of one unit, on disk and in memory.
  std::uint64_t region_bytes(const UnitRef& ref) const;
  /// Returns the memory for consecutive regions and their scratch.
  std::uint64_t need_bytes(std::uint64_t region_bytes, std::uint64_t scratch_bytes) const noexcept;
  /// Returns the part of it in front of regions at an offset in a file. Arrays that are stored
  /// whole can begin at any byte. In memory they keep their distance from the start of a page.
  std::uint64_t lead_bytes(std::uint64_t offset_bytes) const noexcept;
  /// Returns the start of scratch behind so many bytes: the next line of the processor's cache.
  static std::uint64_t scratch_begin(std::uint64_t bytes) noexcept;
  /// Return the number of chunks before a unit, or before a chunk, in the address space. Only for
  /// compressed chunks.
  std::uint64_t chunks_before(const UnitRef& ref) const;
  std::uint64_t chunks_before(std::uint32_t leaf, const Shape& chunk) const;
  /// Returns the address of a chunk of a leaf that has units.
  std::uint64_t address_of(std::uint32_t leaf, const Shape& chunk) const;
  /// Returns the unit that starts at `address`. There must be one.
  UnitRef unit_at(std::uint64_t address) const;
  /// Returns the unit after `ref`. After the last one, group is groups().size().
  UnitRef next(const UnitRef& ref) const;
  const Group& group_of(const UnitRef& ref) const { return groups_[ref.group]; }

 private:
  std::uint64_t begin_bytes(std::uint32_t file) const noexcept {
    return arrays_ ? arrays_->leading_bytes[file] : files_.begin_bytes(limits_.alignment_bytes);
  }
  void order_groups();
  void order_arrays(const ArrayFilesFunction& put);
  void place_groups();
  void cut_files();
  void cut_array_files();
  void count_totals();
  std::uint32_t group_number(std::uint32_t leaf, const ChunkIndex& index) const;

  std::shared_ptr<const Model> model_;
  CutLeaves cut_;
  FileLayout files_;
  std::optional<ArrayFiles> arrays_;
  Limits limits_;
  bool packed_;
  std::vector<Group> groups_;
  std::vector<std::uint64_t> group_chunks_;  // before each group, if compressed
  std::vector<std::uint32_t> leaf_groups_;   // group index by (leaf, loop_index)
  std::vector<std::uint64_t> leaf_group_begin_;
  std::vector<std::uint64_t> file_begin_;
  LayoutTotals totals_;
};

}  // namespace hfshard
