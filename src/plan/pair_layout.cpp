#include "plan/pair_layout.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "ops/source_rows.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/piece_window.h"
#include "plan/layout/source_choice.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kUnitsOfTile = 4;

using Transfers = std::vector<const Transfer*>;

// Two regions are held at once, and nothing of them is written. Small ones, as far as pieces allow,
// are compared where they were read to, before the processor's caches lose them.
Limits comparing_limits(Limits limits) {
  constexpr std::uint64_t kLine = 64;
  constexpr std::uint64_t kMostMerged = std::uint64_t{4} << 20;
  limits.alignment_bytes = kLine;
  limits.slab_bytes /= 2;
  limits.merge_bytes = std::min(limits.merge_bytes, kMostMerged);
  return limits;
}

bool reads_pieces_of(const Model& model, const Transfer& transfer, const SplitArrays& split) {
  return std::ranges::any_of(transfer.sources, [&](std::uint32_t array) {
    return !model.catalog().tensors[array].is_whole() && !split.has(array);
  });
}

// How one leaf is cut.
struct CutLeaf {
  Grid grid;
  UnitForm unit;
};

// Finds units that suit both sides.
class PairCutter {
 public:
  PairCutter(const Model& left, const Model& right, const Limits& limits)
      : models_{&left, &right}, limits_(limits) {}

  std::array<SplitArrays, 2>& split() { return split_; }

  // Arrays are added to those that are split until every leaf has units.
  void choose_split() {
    for (bool added = true; added;) {
      added = false;
      for (std::uint32_t leaf = 0; leaf < leaves().size(); ++leaf) added = settle(leaf) || added;
      for (std::size_t side = 0; side < 2 && added; ++side)
        split_[side] = split_arrays(*models_[side], refused_[side], limits_);
    }
  }

  CutLeaf cut(std::uint32_t leaf) const {
    CutLeaf out = find(leaf, look(leaf));
    if (fits_slab(out.unit, limits_)) return out;
    throw Error(ErrorCode::limit,
                fmt::format("one row of this array matches {} of the other checkpoint's, and "
                            "hfshard holds at most {} at once",
                            human_bytes(out.unit.region_bytes()), human_bytes(limits_.slab_bytes)))
        .in_tensor(leaves()[leaf].name);
  }

 private:
  struct Look {
    std::array<SourceChoice, 2> sources;
    std::array<Transfers, 2> transfers;
  };

  const std::vector<Leaf>& leaves() const { return models_[0]->leaves; }

  Look look(std::uint32_t leaf) const {
    Look out;
    for (std::size_t side = 0; side < 2; ++side) {
      out.transfers[side] = models_[side]->leading_to(leaf);
      out.sources[side] =
          choose_source(*models_[side], leaves()[leaf], out.transfers[side], split_[side], limits_);
    }
    return out;
  }

  // Whether arrays of a leaf have to be split that were not.
  bool settle(std::uint32_t leaf) {
    Look seen = look(leaf);
    const bool refused = !seen.sources[0].refused.empty() || !seen.sources[1].refused.empty();
    if (!refused && !fits_slab(find(leaf, seen).unit, limits_)) {
      for (SourceChoice& source : seen.sources) source.refused = source.taken;
    }
    bool added = false;
    for (std::size_t side = 0; side < 2; ++side)
      added = add_refused(seen.sources[side], refused_[side]) || added;
    return added;
  }

  // Returns what units must not split: on each side the pieces that are read in stored order, and
  // the rows of plain files.
  std::optional<SourcePieces> joint_pieces(std::uint32_t leaf, const Look& seen) const {
    const Leaf& info = leaves()[leaf];
    SourcePieces out;
    out.whole_rows = reads_rows(0, seen) || reads_rows(1, seen);
    for (std::size_t d = 0; d < info.shape.rank(); ++d) out.window.push_back(1);
    bool any = false;
    for (std::size_t side = 0; side < 2; ++side) {
      if (const auto& pieces = seen.sources[side].pieces) {
        any = true;
        out.window = join_windows(info, out.window, pieces->window);
        out.scratch_bytes = std::max(out.scratch_bytes, pieces->scratch_bytes);
      }
    }
    if (!any && seen.transfers[0].size() + seen.transfers[1].size() <= 2 &&
        row_axes(info, first_of(seen.transfers[0])) == row_axes(info, first_of(seen.transfers[1])))
      return std::nullopt;
    for (std::size_t side = 0; side < 2; ++side) {
      for (const Transfer* transfer : seen.transfers[side])
        close_rows_of(side, *transfer, info, out);
    }
    return out;
  }

  static const Transfer* first_of(const Transfers& transfers) {
    return transfers.empty() ? nullptr : transfers.front();
  }

  void close_rows_of(std::size_t side, const Transfer& transfer, const Leaf& leaf,
                     SourcePieces& out) const {
    const bool plain = std::ranges::all_of(transfer.sources, [&](std::uint32_t array) {
      return models_[side]->catalog().tensors[array].is_whole();
    });
    if (!plain) return;
    out.window = join_windows(leaf, out.window, row_window(leaf, transfer));
  }

  bool reads_rows(std::size_t side, const Look& seen) const {
    return !seen.transfers[side].empty() &&
           !reads_pieces_of(*models_[side], *seen.transfers[side].front(), split_[side]);
  }

  // Those of both sides; one that reads whole rows leads.
  Transfers both_transfers(const Look& seen) const {
    const std::size_t first = !reads_rows(0, seen) && reads_rows(1, seen) ? 1 : 0;
    Transfers out = seen.transfers[first];
    const Transfers& other = seen.transfers[1 - first];
    out.insert(out.end(), other.begin(), other.end());
    return out;
  }

  // The grids of arrays that are leaves as they are.
  std::vector<Grid> grids_of(std::uint32_t leaf, const Look& seen) const {
    std::vector<Grid> out;
    for (std::size_t side = 0; side < 2; ++side) {
      if (seen.transfers[side].size() != 1) continue;
      const Transfer& only = *seen.transfers[side].front();
      if (only.sources.size() != 1 || !reads_pieces_of(*models_[side], only, split_[side]))
        continue;
      Grid grid = models_[side]->catalog().grid_of(only.sources.front());
      if (grid.chunk.rank() != leaves()[leaf].shape.rank() ||
          !(only.source_shape == leaves()[leaf].shape))
        continue;
      grid.order.clear();
      for (std::size_t d = 0; d < grid.chunk.rank(); ++d)
        grid.chunk[d] = std::max<std::uint64_t>(grid.chunk[d], 1);
      grid.shard = grid.inner = grid.chunk;
      out.push_back(std::move(grid));
    }
    return out;
  }

  // The first that is no larger than a tile, or else the smallest.
  CutLeaf find(std::uint32_t leaf, const Look& seen) const {
    const Leaf& info = leaves()[leaf];
    const Transfers transfers = both_transfers(seen);
    const std::optional<SourcePieces> pieces = joint_pieces(leaf, seen);
    const SourcePieces* asked = pieces ? &*pieces : nullptr;
    const Shape whole = whole_chunk(info.shape);
    CutLeaf best{{whole, whole, whole}, {}};
    best.unit = find_sliced_unit(info, transfers, form_of(info, whole), limits_, asked);
    const auto offer = [&](const Grid& grid) {
      if (best.unit.region_bytes() <= limits_.merge_bytes) return;
      UnitForm unit =
          find_unit_form(info, grid, transfers, form_of(info, grid.chunk), limits_, asked);
      if (unit.region_bytes() < best.unit.region_bytes()) best = {grid, std::move(unit)};
    };
    for (const Grid& grid : grids_of(leaf, seen)) offer(grid);
    const Transfer* first = first_of(transfers);
    if (best.unit.region_bytes() > limits_.merge_bytes) {
      std::vector<bool> closed = row_axes(info, first);
      for (std::size_t d = 0; d < closed.size() && pieces; ++d)
        closed[d] = closed[d] || pieces->window[d] >= info.shape[d];
      offer(cut_grid(info, whole, source_order(info, first), limits_.merge_bytes / kUnitsOfTile,
                     limits_, closed));
    }
    for (const SourceChoice& source : seen.sources) {
      best.unit.scratch_bytes = std::max(best.unit.scratch_bytes, source.split_scratch_bytes);
    }
    return best;
  }

  static PieceForm form_of(const Leaf& leaf, const Shape& chunk) {
    return {packed_bytes(leaf.dtype, chunk.numel()), 1, 0, 0};
  }

  std::array<const Model*, 2> models_;
  const Limits& limits_;
  std::array<std::vector<std::uint32_t>, 2> refused_;  // ascending
  std::array<SplitArrays, 2> split_;                   // of those that are settled
};

}  // namespace

struct PairLayout::Cut {
  CutLeaves left;
  CutLeaves right;
  PerLeaf<std::uint64_t> fill_scratch;
};

PairLayout::Cut PairLayout::cut(const Model& left, const Model& right, const Limits& limits) {
  PairCutter cutter(left, right, limits);
  cutter.choose_split();
  Cut out;
  for (std::uint32_t leaf = 0; leaf < left.leaves.size(); ++leaf) {
    CutLeaf cut = cutter.cut(leaf);
    const std::uint64_t fill = round_up(cut.unit.scratch_bytes, 64);
    out.fill_scratch.push_back(fill);
    cut.unit.scratch_bytes = fill + round_up(cut.unit.region_bytes(), 64);
    out.left.grids.push_back(cut.grid);
    out.left.units.push_back(cut.unit);
  }
  out.right = out.left;
  out.left.split = std::move(cutter.split()[0]);
  out.right.split = std::move(cutter.split()[1]);
  return out;
}

namespace {

// Units are one tile only if they use the same unpacked arrays, of which the tiles' own layout
// knows those of one side.
Limits tile_limits(Limits limits, bool apart) {
  if (apart) limits.merge_bytes = 1;
  return limits;
}

}  // namespace

PairLayout::PairLayout(std::shared_ptr<const Model> left, std::shared_ptr<const Model> right,
                       const Limits& limits, Cut cut)
    : fill_scratch_(std::move(cut.fill_scratch)),
      left_(std::move(left), std::move(cut.left),
            tile_limits(limits, !cut.right.split.unpacked.empty()), false),
      right_(std::move(right), std::move(cut.right), limits, false) {}

PairLayout::PairLayout(const std::shared_ptr<const Model>& left,
                       const std::shared_ptr<const Model>& right, const Limits& limits)
    : PairLayout(left, right, comparing_limits(limits),
                 cut(*left, *right, comparing_limits(limits))) {}

UnitRef PairLayout::right_of(const UnitRef& left) const {
  const Group& group = left_.group_of(left);
  const Shape origin = unit_origin(left_.units()[group.leaf], group.loop_index, left.unit);
  return right_.unit_at(right_.address_of(group.leaf, origin));
}

}  // namespace hfshard
