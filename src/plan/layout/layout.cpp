#include "plan/layout/layout.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/text.h"
#include "plan/layout/band.h"
#include "plan/layout/piece_window.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kMaxGroups = std::uint64_t{1} << 28;

// Returns the source position of a group's first unit, which decides the order of tiles.
std::pair<std::uint32_t, std::uint64_t> source_position(const Model& model, const CutLeaves& cut,
                                                        const Group& group) {
  const auto transfers = model.transfers_of(group.leaf);
  if (transfers.empty()) return {UINT32_MAX, 0};
  const Transfer& first = model.transfers[transfers.front()];
  const Leaf& leaf = model.leaves[group.leaf];
  const UnitForm& unit = cut.units[group.leaf];
  const Shape origin = unit.units_per_group > 0 ? unit_origin(unit, group.loop_index, 0)
                                                : unit.counts;  // an empty leaf has no unit
  const Shape strides = leaf.shape.strides();
  std::uint64_t source = 0;
  for (const Loop& loop : first.loops) {
    const std::size_t axis = axis_of(strides, loop.dst_step);
    const auto per_index = static_cast<std::uint64_t>(loop.dst_step) / strides[axis];
    const std::uint64_t begin = origin[axis] * cut.grids[group.leaf].chunk[axis];
    const std::uint64_t index = loop.extent > 1 ? std::min(begin / per_index, loop.extent - 1) : 0;
    source = source * loop.extent + index;
  }
  const TensorInfo& info = model.catalog().tensors[first.sources[source]];
  if (!info.is_whole()) return {first.sources[source], 0};  // array by array
  return {info.file, info.begin_bytes};
}

// Returns the elements that the run reads for one source of a transfer: bands with their short
// holes.
std::uint64_t read_elements(const Transfer& transfer, const BandForm& form) {
  const IndexMap map = split_at_rows(transfer);
  return BandCursor(map, form.row, form.most, form.gap).elements();
}

// Returns whether a transfer reads plain tensors, not arrays in pieces.
bool is_plain(const Model& model, const Transfer& transfer) {
  return model.catalog().tensors[transfer.sources.front()].is_whole();
}

// Returns the decoded bytes of the used arrays in pieces. Each piece is read once.
std::uint64_t piece_bytes(const Model& model) {
  std::vector<bool> used(model.catalog().tensors.size(), false);
  for (const Transfer& transfer : model.transfers) {
    if (is_plain(model, transfer)) continue;
    for (const std::uint32_t source : transfer.sources) used[source] = true;
  }
  std::uint64_t out = 0;
  for (std::size_t i = 0; i < used.size(); ++i) {
    const TensorInfo& info = model.catalog().tensors[i];
    if (used[i]) out += packed_bytes(info.dtype, info.shape.numel());
  }
  return out;
}

// Counts the tensors that several leaves use. The run reads them once per leaf.
std::uint64_t shared_tensors(const Model& model, const PerLeaf<Grid>& grids) {
  constexpr std::uint32_t kUnseen = UINT32_MAX;
  constexpr std::uint32_t kSeveral = kUnseen - 1;
  std::vector<std::uint32_t> leaf(model.catalog().tensors.size(), kUnseen);
  std::uint64_t out = 0;
  for (const Transfer& transfer : model.transfers) {
    if (grids[transfer.target].linked || !is_plain(model, transfer)) continue;
    for (const std::uint32_t source : transfer.sources) {
      if (leaf[source] == kUnseen) {
        leaf[source] = transfer.target;
      } else if (leaf[source] != transfer.target && leaf[source] != kSeveral) {
        leaf[source] = kSeveral;
        ++out;
      }
    }
  }
  return out;
}

constexpr std::uint64_t kPageBytes = 4096;

std::uint64_t of_arrays(const std::optional<ArrayFiles>& arrays) {
  if (!arrays) return 0;
  return heap_bytes(arrays->order) + heap_bytes(arrays->first) + heap_bytes(arrays->leading_bytes);
}

// Returns the disk that an array takes while it is unpacked.
std::uint64_t unpacked_bytes(const Model& model, std::uint32_t array,
                             const std::vector<UnpackedForm>& unpacked) {
  const UnpackedForm* form = find_form(unpacked, array);
  if (form == nullptr) return 0;
  const TensorInfo& info = model.catalog().tensors[array];
  return packed_bytes(info.dtype, form->elements(info.shape));
}

// Returns the most disk that the unpacked arrays of a leaf's unit take. If a unit spans several
// arrays of a loop, all of them count.
std::uint64_t unpacked_bytes_of(const Model& model, std::uint32_t leaf, const UnitForm& unit,
                                const Grid& grid, const std::vector<UnpackedForm>& unpacked) {
  std::uint64_t out = 0;
  bool one = true;
  for (std::size_t d = 0; d < unit.counts.rank(); ++d)
    one = one && (!unit.loop[d] || unit.span[d] * grid.chunk[d] == 1);
  for (const std::uint32_t t : model.transfers_of(leaf)) {
    std::uint64_t sum = 0;
    std::uint64_t most = 0;
    const Transfer& transfer = model.transfers[t];
    for (std::size_t i = 0; i < transfer.sources.size(); ++i) {
      std::uint64_t bytes = unpacked_bytes(model, transfer.sources[i], unpacked);
      const auto add = [&](std::uint32_t array) {
        bytes += unpacked_bytes(model, array, unpacked);
      };
      if (transfer.decode) transfer.decode->for_each_tensor_of(i, add);
      sum += bytes;
      most = std::max(most, bytes);
    }
    out += one ? most : sum;
  }
  return out;
}

std::uint64_t of_unit(const UnitForm& form) {
  return heap_bytes(form.loop) + heap_bytes(form.order);
}

}  // namespace

Layout::Layout(std::shared_ptr<const Model> model, CutLeaves cut, const Limits& limits, bool packed,
               FileLayout files, const ArrayFilesFunction& put)
    : model_(std::move(model)),
      cut_(std::move(cut)),
      files_(std::move(files)),
      limits_(limits),
      packed_(packed) {
  if (put) {
    order_arrays(put);
  } else {
    order_groups();
  }
  place_groups();
  if (arrays_) {
    cut_array_files();
  } else {
    cut_files();
  }
  count_totals();
}

std::uint64_t Layout::heap_bytes() const {
  return model_->heap_bytes() +
         cut_.grids.heap_bytes([](const Grid& grid) { return hfshard::heap_bytes(grid.order); }) +
         cut_.units.heap_bytes(of_unit) + of_arrays(arrays_) + hfshard::heap_bytes(groups_) +
         hfshard::heap_bytes(group_chunks_) + hfshard::heap_bytes(leaf_groups_) +
         hfshard::heap_bytes(leaf_group_begin_) + hfshard::heap_bytes(file_begin_) +
         hfshard::heap_bytes(cut_.split);
}

bool Layout::reads_pieces(std::uint32_t array) const {
  if (catalog().tensors[array].is_whole()) return false;
  const UnpackedForm* form = find_form(cut_.split.unpacked, array);
  return form == nullptr || !form->row_major;
}

ArrayPlace Layout::place_of(std::uint32_t array) const {
  const TensorInfo& info = catalog().tensors[array];
  if (info.is_whole()) return {info.file, info.begin_bytes};
  const UnpackedForm* form = find_form(cut_.split.unpacked, array);
  HFSHARD_CHECK(form != nullptr);
  return {static_cast<std::uint32_t>(catalog().files.size()) + form->first, 0};
}

std::uint32_t Layout::group_number(std::uint32_t leaf, const ChunkIndex& index) const {
  return leaf_groups_[leaf_group_begin_[leaf] + index.loop_index];
}

std::uint64_t Layout::address_of(std::uint32_t leaf, const Shape& chunk) const {
  const UnitForm& unit = cut_.units[leaf];
  const ChunkIndex index = chunk_index(unit, chunk);
  return groups_[group_number(leaf, index)].address + unit_offset(unit, index.unit) +
         index.position * unit.stride_bytes;
}

std::uint32_t Layout::file_at(std::uint64_t address) const {
  const auto after = std::ranges::upper_bound(file_begin_, address);
  return static_cast<std::uint32_t>(after - file_begin_.begin() - 1);
}

std::uint64_t Layout::address_of(const UnitRef& ref) const {
  if (ref.group == groups_.size()) return end_address();
  const Group& group = groups_[ref.group];
  return group.address + unit_offset(cut_.units[group.leaf], ref.unit);
}

std::uint64_t Layout::region_bytes(const UnitRef& ref) const {
  const UnitForm& unit = cut_.units[groups_[ref.group].leaf];
  return unit_offset(unit, ref.unit + 1) - unit_offset(unit, ref.unit);
}

std::uint64_t Layout::need_bytes(std::uint64_t region_bytes,
                                 std::uint64_t scratch_bytes) const noexcept {
  const std::uint64_t most_lead = files_.whole_arrays ? kPageBytes : 0;
  return scratch_begin(most_lead + region_bytes) + scratch_bytes;
}

std::uint64_t Layout::lead_bytes(std::uint64_t offset_bytes) const noexcept {
  return files_.whole_arrays ? offset_bytes % kPageBytes : 0;
}

std::uint64_t Layout::scratch_begin(std::uint64_t bytes) noexcept {
  constexpr std::uint64_t kLine = 64;
  return round_up(bytes, kLine);
}

std::uint64_t Layout::chunks_before(const UnitRef& ref) const {
  if (ref.group == groups_.size()) return totals_.chunks;
  return group_chunks_[ref.group] + ref.unit * cut_.units[groups_[ref.group].leaf].chunks_per_unit;
}

std::uint64_t Layout::chunks_before(std::uint32_t leaf, const Shape& chunk) const {
  const UnitForm& unit = cut_.units[leaf];
  const ChunkIndex index = chunk_index(unit, chunk);
  return group_chunks_[group_number(leaf, index)] + index.unit * unit.chunks_per_unit +
         index.position;
}

UnitRef Layout::unit_at(std::uint64_t address) const {
  if (address == end_address()) return {static_cast<std::uint32_t>(groups_.size()), 0};
  const auto after = std::ranges::upper_bound(groups_, address, {}, &Group::address);
  HFSHARD_CHECK(after != groups_.begin());
  UnitRef ref;
  ref.group = static_cast<std::uint32_t>(after - groups_.begin() - 1);
  const Group& group = groups_[ref.group];
  ref.unit = unit_at_offset(cut_.units[group.leaf], address - group.address);
  return ref;
}

UnitRef Layout::next(const UnitRef& ref) const {
  if (ref.unit + 1 < cut_.units[groups_[ref.group].leaf].units_per_group)
    return {ref.group, ref.unit + 1};
  return {ref.group + 1, 0};
}

void Layout::order_groups() {
  struct Keyed {
    std::uint32_t file;
    std::uint64_t offset;
    Group group;
  };
  std::uint64_t groups = 0;
  for (std::size_t leaf = 0; leaf < cut_.units.size(); ++leaf) groups += cut_.units[leaf].groups;
  if (groups > kMaxGroups) {
    throw Error(ErrorCode::limit,
                fmt::format("the output has {} groups of chunks, and a plan holds at most {}",
                            groups, kMaxGroups))
        .hint("pass a larger --chunk-bytes");
  }
  std::vector<Keyed> keyed;
  keyed.reserve(groups);
  for (std::uint32_t leaf = 0; leaf < cut_.units.size(); ++leaf) {
    const UnitForm& unit = cut_.units[leaf];
    if (unit.units_per_group == 0 || unit.chunks_per_unit == 0) continue;
    for (std::uint32_t loop = 0; loop < unit.groups; ++loop) {
      const Group group{leaf, loop, 0};
      const auto [file, offset] = source_position(*model_, cut_, group);
      keyed.push_back({file, offset, group});
    }
  }
  std::ranges::sort(keyed, [](const Keyed& a, const Keyed& b) {
    return std::tie(a.file, a.offset, a.group.leaf, a.group.loop_index) <
           std::tie(b.file, b.offset, b.group.leaf, b.group.loop_index);
  });
  groups_.reserve(keyed.size());
  for (const Keyed& item : keyed) groups_.push_back(item.group);
}

// A leaf that is stored whole is one group. The format decides the order of groups.
void Layout::order_arrays(const ArrayFilesFunction& put) {
  std::vector<std::uint32_t> order(cut_.units.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::pair<std::uint32_t, std::uint64_t>> positions;
  positions.reserve(order.size());
  for (const std::uint32_t leaf : order)
    positions.push_back(source_position(*model_, cut_, {leaf, 0, 0}));
  std::ranges::stable_sort(order, {}, [&](std::uint32_t leaf) { return positions[leaf]; });
  arrays_ = put(model_->leaves, order);
  HFSHARD_CHECK(arrays_->order.size() == cut_.units.size());
  for (const std::uint32_t leaf : arrays_->order) {
    if (cut_.units[leaf].units_per_group != 0) groups_.push_back({leaf, 0, 0});
  }
}

void Layout::place_groups() {
  std::uint64_t address = 0;
  std::uint64_t chunks = 0;
  leaf_group_begin_.assign(cut_.units.size() + 1, 0);
  for (std::size_t leaf = 0; leaf < cut_.units.size(); ++leaf) {
    leaf_group_begin_[leaf + 1] = leaf_group_begin_[leaf] + cut_.units[leaf].groups;
  }
  leaf_groups_.assign(leaf_group_begin_.back(), 0);
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    group.address = address;
    const UnitForm& unit = cut_.units[group.leaf];
    if (packed_) group_chunks_.push_back(chunks);
    address += unit_offset(unit, unit.units_per_group);
    chunks += unit.units_per_group * unit.chunks_per_unit;
    leaf_groups_[leaf_group_begin_[group.leaf] + group.loop_index] = i;
  }
  totals_.output_bytes = address;
  if (address > kMaxOutputBytes) {
    throw Error(
        ErrorCode::limit,
        fmt::format(
            "{} chunks, each at a multiple of {}, need {} of output; a plan holds at most {}",
            chunks, human_bytes(limits_.alignment_bytes), human_bytes(address),
            human_bytes(kMaxOutputBytes)))
        .hint("pass a larger --chunk-bytes");
  }
}

// Data files are runs of units, cut by output bytes alone.
void Layout::cut_files() {
  const std::uint64_t most = std::clamp(totals_.output_bytes / limits_.file_share,
                                        limits_.file_min_bytes, limits_.file_max_bytes);
  file_begin_.assign(1, 0);
  for (const Group& group : groups_) {
    const UnitForm& unit = cut_.units[group.leaf];
    const std::uint64_t region = unit.region_bytes();
    std::uint64_t done = 0;
    while (done < unit.units_per_group) {
      const std::uint64_t address = group.address + done * region;
      const std::uint64_t used = address - file_begin_.back();
      const std::uint64_t room = used < most ? (most - used) / region : 0;
      if (room == 0 && used > 0) {
        file_begin_.push_back(address);
        continue;
      }
      done += std::max<std::uint64_t>(room, 1);
    }
  }
  if (totals_.output_bytes > 0) file_begin_.push_back(totals_.output_bytes);
  totals_.output_bytes += data_files() * files_.begin_bytes(limits_.alignment_bytes);
}

void Layout::cut_array_files() {
  file_begin_.assign(1, 0);
  for (std::uint32_t file = 0; file < arrays_->leading_bytes.size(); ++file) {
    std::uint64_t end = file_begin_.back();
    for (const std::uint32_t leaf : arrays_->in_file(file))
      end += unit_offset(cut_.units[leaf], cut_.units[leaf].units_per_group);
    file_begin_.push_back(end);
    totals_.output_bytes += arrays_->leading_bytes[file];
  }
}

void Layout::count_totals() {
  totals_.tensors = model_->catalog().tensors.size();
  for (const Transfer& transfer : model_->transfers) {
    if (cut_.grids[transfer.target].linked || !is_plain(*model_, transfer)) continue;
    const DType leaf_dtype = model_->leaves[transfer.target].dtype;
    const BandForm form = band_form(transfer, leaf_dtype, limits_);
    totals_.source_bytes +=
        ceil_div(read_elements(transfer, form) * size_bits(transfer.source_dtype), 8) *
        transfer.sources.size();
    if (!transfer.decode) continue;
    transfer.decode->for_each_tensor([&](std::uint32_t tensor) {
      totals_.source_bytes += model_->catalog().tensors[tensor].size_bytes;
    });
  }
  totals_.source_bytes += piece_bytes(*model_);
  totals_.shared_tensors = shared_tensors(*model_, cut_.grids);
  totals_.dropped = model_->drops.size();
  for (std::uint32_t leaf = 0; leaf < cut_.units.size(); ++leaf) {
    const UnitForm& unit = cut_.units[leaf];
    if (const Grid& grid = cut_.grids[leaf]; grid.linked) {
      const Leaf& info = model_->leaves[leaf];
      ++totals_.linked_leaves;
      totals_.linked_bytes += packed_bytes(info.dtype, info.shape.numel());
      totals_.linked_chunks += chunk_counts(info.shape, grid.chunk).numel();
    }
    totals_.units += unit.groups * unit.units_per_group;
    if (!unit.slices) {
      totals_.chunks += unit.groups * unit.units_per_group * unit.chunks_per_unit;
    } else if (unit.units_per_group > 0) {
      ++totals_.chunks;
    }
    totals_.largest_need_bytes =
        std::max(totals_.largest_need_bytes, need_bytes(unit.region_bytes(), unit.scratch_bytes));
    if (cut_.split.unpacked.empty() || unit.groups == 0) continue;
    totals_.unpacked_bytes =
        std::max(totals_.unpacked_bytes,
                 unpacked_bytes_of(*model_, leaf, unit, cut_.grids[leaf], cut_.split.unpacked));
  }
  for (const UnpackedForm& form : cut_.split.unpacked) {
    const std::uint64_t reader = model_->source().scratch_bytes(form.array, PieceSteps::any);
    const UnpackBands bands = unpack_bands(catalog().tensors[form.array].dtype,
                                           catalog().grid_of(form.array), reader, limits_);
    totals_.largest_need_bytes = std::max(totals_.largest_need_bytes, bands.scratch_bytes());
  }
}

}  // namespace hfshard
