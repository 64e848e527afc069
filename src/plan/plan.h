#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "catalog/catalog.h"
#include "catalog/format.h"
#include "catalog/per_leaf.h"
#include "catalog/piece.h"
#include "ops/transfer.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"
#include "plan/layout/mesh.h"
#include "plan/layout/unit.h"

#include "hfshard/plan.h"

namespace hfshard {

/// One unit of the plan, by position.
struct UnitRef {
  std::uint32_t group = 0;
  std::uint64_t unit = 0;
  friend bool operator==(const UnitRef&, const UnitRef&) = default;
};

/// Totals that a person wants to see before anything moves.
struct PlanTotals {
  std::uint64_t tensors = 0;
  std::uint64_t dropped = 0;
  std::uint64_t source_bytes = 0;    ///< that are read: short holes between parts, and scales, too
  std::uint64_t shared_tensors = 0;  ///< that feed several leaves; read once for each
  std::uint64_t output_bytes = 0;    ///< data files, alignment included
  std::uint64_t chunks = 0;
  std::uint64_t units = 0;
  std::uint64_t largest_need_bytes = 0;  ///< of one unit: region and scratch
  std::uint64_t linked_leaves = 0;       ///< whose chunks are bytes of the source's files
  std::uint64_t linked_bytes = 0;
  std::uint64_t linked_chunks = 0;
};

/// A leaf that could not be linked.
struct NotLinked {
  std::uint32_t leaf = 0;
  std::string why;
};

/// The plan: which bytes go where. Immutable once built; its memory grows with names, never with
/// chunks or elements. The concatenation of all data files is one address space; a file is a run of
/// whole units. Linked leaves have no units: their chunks lie in the source's files. Of compressed
/// chunks the address space has the most that they can take; where they end up is known only when
/// they are written (run/moving/packing.h).
class Plan final : public Placements {
 public:
  Catalog catalog;
  CompiledModel model;
  PlanOptions options;
  FileLayout files;
  Limits limits;
  AxisRules rules;
  std::vector<Mesh> meshes;
  PerLeaf<Grid> grids;        ///< per leaf
  PerLeaf<UnitForm> units;    ///< per leaf
  std::vector<Group> groups;  ///< in source order; addresses ascend
  std::vector<std::uint64_t>
      file_begin;  ///< address of each file's first unit, then the end of the last
  PlanTotals totals;
  Json identity;                      ///< the parts of the plan id
  std::string id;                     ///< 64 hex digits
  std::vector<NotLinked> not_linked;  ///< of a plan that links: leaves that are converted, and why

  std::string file_path(std::uint32_t file) const override;
  /// Data files that the run writes; numbers from here on are those of the source's files.
  std::uint32_t file_count() const override;
  Place place(std::uint32_t leaf, const Shape& chunk) const override;

  std::uint64_t end_address() const noexcept { return file_begin.back(); }
  std::uint64_t address_of(const UnitRef& ref) const;
  /// The data file that holds an address below end_address().
  std::uint32_t file_at(std::uint64_t address) const;
  /// Where an address of a data file is in it.
  std::uint64_t offset_in(std::uint32_t file, std::uint64_t address) const {
    return files.begin_bytes(limits.alignment_bytes) + address - file_begin[file];
  }
  /// Where all names of files are relative to, in the directory of a step.
  std::string item_directory(const std::string& step) const;
  /// Whether chunks are compressed, so that they lie where writing puts them
  /// (run/moving/packing.h).
  bool is_packed() const noexcept { return options.encoding.zstd_level != 0; }
  /// How many chunks lie before a unit, and before a chunk, in the concatenation of all data files.
  /// Of a plan that compresses.
  std::uint64_t chunks_before(const UnitRef& ref) const;
  std::uint64_t chunks_before(std::uint32_t leaf, const Shape& chunk) const;
  /// The unit that starts at `address`, which must be one.
  UnitRef unit_at(std::uint64_t address) const;
  /// The unit after `ref`; past the last one group == groups.size().
  UnitRef next(const UnitRef& ref) const;
  const Group& group_of(const UnitRef& ref) const { return groups[ref.group]; }
  std::uint32_t group_number(std::uint32_t leaf, const ChunkIndex& index) const;

  /// Transfers (indices) that write a leaf, and fills.
  std::span<const std::uint32_t> transfers_of(std::uint32_t leaf) const;
  std::span<const std::uint32_t> fills_of(std::uint32_t leaf) const;
  /// The transfers that write a leaf.
  std::vector<const Transfer*> leading_to(std::uint32_t leaf) const;
  /// Digest slot of a transfer's source: one per (rule, source tensor).
  std::uint64_t digest_slot(std::uint32_t transfer, std::uint64_t source) const {
    return slot_begin[transfer] + source;
  }
  /// Whether the digests of a transfer are recorded: not of what is only linked.
  bool has_digest(std::uint32_t transfer) const {
    return options.digests || !grids[model.transfers[transfer].target].linked;
  }
  std::uint64_t digest_slots() const { return slot_begin.back(); }

  // Indices built once by build_plan.
  std::vector<std::uint32_t> leaf_transfers, leaf_transfer_begin;
  std::vector<std::uint32_t> leaf_fills, leaf_fill_begin;
  std::vector<std::uint32_t> leaf_groups;  ///< group index by (leaf, loop_index)
  std::vector<std::uint64_t> leaf_group_begin;
  std::vector<std::uint64_t> group_chunks;  ///< chunks before each group, if they are compressed
  std::vector<std::uint64_t> slot_begin;
};

/// Answers the target's question about a leaf (Format::form), so that plan need not know targets.
using FormFunction = std::function<PieceForm(const Leaf&, const Grid&)>;

/// Builds the plan. Throws: what make_unit_form, parse_mesh, shard_counts and `form` throw.
Plan build_plan(Catalog catalog, CompiledModel model, const PlanOptions& options,
                const FormFunction& form, const FileLayout& files, const Limits& limits);

/// The files of the catalog, by index, that hold chunks of linked leaves, ascending.
std::vector<std::uint32_t> linked_files(const Plan& plan);

/// Fills the indices of a plan whose model is set (leaf_transfers, leaf_fills, slot_begin).
void index_plan(Plan& plan);

/// Orders and places the units of a plan whose model, grids and units are set; cuts files and
/// counts totals.
void lay_out(Plan& plan);

}  // namespace hfshard
