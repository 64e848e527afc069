#include "run/check/reading.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "ops/read_piece.h"
#include "plan/layout/source_choice.h"
#include "run/engine/cells.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::string chunk_name(const Shape& chunk) {
  std::vector<std::string> parts;
  for (const std::uint64_t index : chunk) parts.push_back(std::to_string(index));
  return join(parts, ", ");
}

// Which opened leaf holds each planned one; leaves that differ in shape, dtype or presence are
// findings.
std::vector<std::optional<std::uint32_t>> match_leaves(const Checkpoint& opened, const Model& model,
                                                       Findings& findings) {
  std::vector<std::optional<std::uint32_t>> out;
  for (const Leaf& leaf : model.leaves) {
    const auto found = opened.catalog().find(leaf.name);
    const TensorInfo* at = found ? &opened.catalog().tensors[*found] : nullptr;
    if (at == nullptr) {
      findings.add({leaf.name, "", "", "the leaf is missing"});
      out.emplace_back();
    } else if (!(at->shape == leaf.shape) || at->dtype != leaf.dtype) {
      findings.add(
          {leaf.name, "", "",
           fmt::format("the leaf is {} {}, not {} {}", to_string(at->dtype), to_string(at->shape),
                       to_string(leaf.dtype), to_string(leaf.shape))});
      out.emplace_back();
    } else {
      out.push_back(found);
    }
  }
  return out;
}

// Chunks are read one by one, into regions of any size.
Limits reading_limits(Limits limits) {
  limits.alignment_bytes = 64;
  limits.slab_bytes = UINT64_MAX / 4;
  return limits;
}

}  // namespace

void Findings::add(Difference difference) {
  const std::lock_guard lock(mutex_);
  items_.push_back(std::move(difference));
}

std::vector<Difference> Findings::take() {
  std::ranges::sort(items_, [](const Difference& a, const Difference& b) {
    return std::tie(a.leaf, a.chunk, a.tensor, a.what) <
           std::tie(b.leaf, b.chunk, b.tensor, b.what);
  });
  const auto same = [](const Difference& a, const Difference& b) {
    return std::tie(a.leaf, a.chunk, a.tensor, a.what) ==
           std::tie(b.leaf, b.chunk, b.tensor, b.what);
  };
  items_.erase(std::unique(items_.begin(), items_.end(), same), items_.end());
  return std::move(items_);
}

Reading::Reading(const Checkpoint& opened, const std::shared_ptr<const Model>& model,
                 const Limits& limits, StageMeter& meter, const SplitArrays* split,
                 const std::vector<bool>* wanted)
    : opened_(opened),
      meter_(meter),
      leaf_of_(match_leaves(opened, *model, findings)),
      layout_(model, cut(*model, reading_limits(limits), split, wanted), reading_limits(limits),
              false) {}

std::string Reading::Part::name() const { return is_slice ? std::string() : chunk_name(chunk); }

void Reading::for_each_part(const UnitRef& ref, std::span<std::byte> region,
                            const std::function<void(const Part&)>& visit) const {
  const std::uint32_t leaf = layout_.group_of(ref).leaf;
  const UnitForm& form = layout_.units()[leaf];
  if (form.slices) {
    Shape first = layout_.model().leaves[leaf].shape;
    for (std::size_t d = 0; d < first.rank(); ++d) first[d] = 0;
    return visit({leaf, first, true, unit_offset(form, ref.unit), region});
  }
  std::uint64_t offset = 0;
  for (const Shape& chunk : unit_chunks(layout_, ref)) {
    visit({leaf, chunk, false, 0, region.subspan(offset, form.form.cell_bytes)});
    offset += form.stride_bytes;
  }
}

Shape Reading::index_of(const Part& part, std::uint64_t byte) const {
  const Leaf& leaf = layout_.model().leaves[part.leaf];
  std::uint64_t element = (part.begin_bytes + byte) / (size_bits(leaf.dtype) / 8);
  const Shape& extent = part.is_slice ? leaf.shape : layout_.grids()[part.leaf].chunk;
  Shape out = extent;
  for (std::size_t d = extent.rank(); d-- > 0;) {
    out[d] = element % extent[d] + part.chunk[d] * extent[d];
    element /= extent[d];
  }
  return out;
}

bool Reading::read(const Part& part, std::span<std::byte> out, std::span<std::byte> scratch) {
  const std::uint32_t array = *leaf_of_[part.leaf];
  try {
    const StageSpan span(&meter_, Busy::read);
    if (!part.is_slice) {
      read_row_major(opened_, array, part.chunk, out, scratch);
      return true;
    }
    const auto reader = opened_.open_piece(array, part.chunk, PieceSteps::whole_cells, scratch);
    reader->skip(part.begin_bytes);
    reader->read(out);
    return true;
  } catch (const Error& error) {  // verify lists all damage instead of stopping at the first
    if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
    std::string what = error.sentence();
    if (!error.file().empty()) what += fmt::format(" ({})", error.file());
    findings.add({layout_.model().leaves[part.leaf].name, part.name(), "", std::move(what),
                  error.file(), error.range()});
    return false;
  }
}

// The leaves as they are cut in the output.
CutLeaves Reading::cut(const Model& model, const Limits& limits, const SplitArrays* split,
                       const std::vector<bool>* wanted) {
  CutLeaves out;
  if (split != nullptr) out.split = *split;
  for (std::uint32_t i = 0; i < model.leaves.size(); ++i) {
    const Leaf& leaf = model.leaves[i];
    Grid grid;
    grid.chunk = leaf_of_[i] ? opened_.catalog().grid_of(*leaf_of_[i]).chunk : leaf.shape;
    for (std::uint64_t* at = &grid.chunk[0]; at != &grid.chunk[0] + grid.chunk.rank(); ++at) {
      *at = std::max<std::uint64_t>(*at, 1);
    }
    grid.inner = grid.shard = grid.chunk;
    const PieceForm form{packed_bytes(leaf.dtype, grid.chunk.numel()), 1, 0, 0};
    const bool whole = leaf_of_[i] && opened_.catalog().tensors[*leaf_of_[i]].is_whole();
    const std::vector<const Transfer*> transfers = model.leading_to(i);
    SourceChoice source;
    if (split != nullptr) source = choose_source(model, leaf, transfers, out.split, limits);
    const SourcePieces* pieces = source.pieces ? &*source.pieces : nullptr;
    UnitForm unit = whole ? make_sliced_unit(leaf, transfers, form, limits, pieces)
                          : make_unit_form(leaf, grid, transfers, form, limits, pieces);
    const std::uint64_t held = whole ? unit.region_bytes() : form.cell_bytes;
    fill_scratch_.push_back(round_up(std::max(unit.scratch_bytes, source.split_scratch_bytes), 64));
    unit.scratch_bytes = fill_scratch_.back() + (split != nullptr ? round_up(held, 64) : 0) +
                         (leaf_of_[i] ? row_major_scratch_bytes(opened_, *leaf_of_[i]) : 0);
    if (!leaf_of_[i] || (wanted != nullptr && !(*wanted)[i])) unit.groups = 0;
    out.grids.push_back(grid);
    out.units.push_back(unit);
  }
  return out;
}

}  // namespace hfshard
