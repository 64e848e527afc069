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

/// One unit of a layout, by position.
struct UnitRef {
  std::uint32_t group = 0;
  std::uint64_t unit = 0;
  friend bool operator==(const UnitRef&, const UnitRef&) = default;
};

/// Totals that a person wants to see before anything moves.
struct LayoutTotals {
  std::uint64_t tensors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t source_bytes = 0;    ///< that are read: short holes between parts, and scales, too
  std::uint64_t shared_tensors = 0;  ///< that feed several leaves; read once for each
  std::uint64_t output_bytes = 0;    ///< data files, alignment included
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  std::uint64_t largest_need_bytes = 0;  ///< of one unit: region and scratch
  std::uint64_t unpacked_bytes = 0;  ///< disk that the unpacked arrays of one unit take, at most
  std::uint64_t linked_leaves = 0;   ///< whose chunks are bytes of the source's files
  std::uint64_t linked_bytes = 0;
  std::uint64_t linked_chunks = 0;
};

/// How each leaf of a model is cut.
struct CutLeaves {
  PerLeaf<Grid> grids;
  PerLeaf<UnitForm> units;  ///< without groups: a leaf that is not moved
  SplitArrays split{};
};

/// Where the plain, row-major bytes of an array begin.
struct ArrayPlace {
  std::uint32_t file = 0;  ///< of the catalog; beyond its files: Layout::unpacked
  std::uint64_t begin_bytes = 0;
};

/// Format::array_files with the size of a file, so that plan need not know targets.
using ArrayFilesFunction = std::function<ArrayFiles(const std::vector<Leaf>& leaves,
                                                    std::span<const std::uint32_t> order)>;

/// Where every chunk of a model lies: the units of all leaves one behind the other, in the order of
/// the source, in one address space that is cut into data files, which are runs of whole units.
/// Immutable; its memory grows with names, never with chunks or elements. Of compressed chunks the
/// address space has the most that they can take (run/moving/packing.h). A plan is one; reading an
/// output back takes another one of the same model, cut as the output is.
class Layout {
 public:
  /// Orders the units, places them, cuts the files and counts. `packed`: chunks will be compressed.
  /// `files`: what the format says of its data files; nothing of one that is read back. `put`: of a
  /// format that stores arrays whole. Throws: limit (too many groups, or more output than can be
  /// meant).
  Layout(std::shared_ptr<const Model> model, CutLeaves cut, const Limits& limits, bool packed,
         FileLayout files = {}, const ArrayFilesFunction& put = {});

  virtual ~Layout() = default;
  Layout(const Layout&) = default;
  Layout(Layout&&) = default;
  Layout& operator=(const Layout&) = delete;
  Layout& operator=(Layout&&) = delete;

  /// Heap that it holds, its model included (base/heap.h): the control plane of a run.
  virtual std::uint64_t heap_bytes() const;

  const Model& model() const noexcept { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const noexcept { return model_; }
  const Catalog& catalog() const noexcept { return model_->catalog(); }
  const Limits& limits() const noexcept { return limits_; }
  const PerLeaf<Grid>& grids() const noexcept { return cut_.grids; }
  const PerLeaf<UnitForm>& units() const noexcept { return cut_.units; }
  const SplitArrays& split() const noexcept { return cut_.split; }
  /// Arrays that are unpacked while they are used, ascending; each of their parts is one file.
  const std::vector<UnpackedForm>& unpacked() const noexcept { return cut_.split.unpacked; }
  /// Whether units read an array piece by piece: those that are stored, or those of what is
  /// unpacked.
  bool reads_pieces(std::uint32_t array) const;
  /// Of an array that is one plain piece, or unpacked (where the first piece of its first part
  /// begins).
  ArrayPlace place_of(std::uint32_t array) const;
  /// In source order; addresses ascend.
  const std::vector<Group>& groups() const noexcept { return groups_; }
  /// Address of each file's first unit, then the end of the last.
  const std::vector<std::uint64_t>& file_begin() const noexcept { return file_begin_; }
  const LayoutTotals& totals() const noexcept { return totals_; }
  const FileLayout& files() const noexcept { return files_; }
  /// Of a format that stores arrays whole; else nullptr.
  const ArrayFiles* array_files() const noexcept { return arrays_ ? &*arrays_ : nullptr; }
  /// Whether chunks are compressed, so that they lie where writing puts them.
  bool is_packed() const noexcept { return packed_; }

  /// Data files that the run writes.
  std::uint32_t data_files() const noexcept {
    return static_cast<std::uint32_t>(file_begin_.size() - 1);
  }
  std::uint64_t end_address() const noexcept { return file_begin_.back(); }
  std::uint64_t address_of(const UnitRef& ref) const;
  /// The data file that holds an address below end_address().
  std::uint32_t file_at(std::uint64_t address) const;
  /// Where an address of a data file is in it.
  std::uint64_t offset_in(std::uint32_t file, std::uint64_t address) const {
    return begin_bytes(file) + address - file_begin_[file];
  }
  /// Of one unit, on disk and in memory.
  std::uint64_t region_bytes(const UnitRef& ref) const;
  /// Memory for regions that follow each other and scratch beside them.
  std::uint64_t need_bytes(std::uint64_t region_bytes, std::uint64_t scratch_bytes) const noexcept;
  /// Of it, in front of regions at an offset in a file: those of arrays that are stored whole, at
  /// any byte, lie as far from the beginning of a page as they do in the file.
  std::uint64_t lead_bytes(std::uint64_t offset_bytes) const noexcept;
  /// Where scratch begins behind so many bytes: with a line of the processor's cache.
  static std::uint64_t scratch_begin(std::uint64_t bytes) noexcept;
  /// How many chunks lie before a unit, and before a chunk, in the address space. Of compressed
  /// ones only.
  std::uint64_t chunks_before(const UnitRef& ref) const;
  std::uint64_t chunks_before(std::uint32_t leaf, const Shape& chunk) const;
  /// Address of a chunk of a leaf that has units.
  std::uint64_t address_of(std::uint32_t leaf, const Shape& chunk) const;
  /// The unit that starts at `address`, which must be one.
  UnitRef unit_at(std::uint64_t address) const;
  /// The unit after `ref`; past the last one group == groups().size().
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
  std::vector<std::uint64_t> group_chunks_;  // chunks before each group, if they are compressed
  std::vector<std::uint32_t> leaf_groups_;   // group index by (leaf, loop_index)
  std::vector<std::uint64_t> leaf_group_begin_;
  std::vector<std::uint64_t> file_begin_;
  LayoutTotals totals_;
};

}  // namespace hfshard
