#include "plan/plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/digest.h"
#include "base/text.h"
#include "base/version.h"
#include "base/zstd.h"
#include "mapping/family.h"
#include "mapping/find.h"
#include "mapping/model_names.h"
#include "plan/cost/link_grid.h"
#include "plan/layout/band.h"
#include "plan/options_json.h"

#include "hfshard/error.h"

namespace hfshard {

std::string Plan::file_path(std::uint32_t file) const {
  if (file < file_count()) return fmt::format("d/{:05}", file);
  const std::string& name = catalog.files[file - file_count()].name;
  return options.in_place ? name : "d/" + name;
}

std::uint32_t Plan::file_count() const { return static_cast<std::uint32_t>(file_begin.size() - 1); }

namespace {

// A chunk of a linked leaf, in a file of the source.
Place linked_place(const Plan& plan, std::uint32_t leaf, const Shape& chunk) {
  const std::vector<const Transfer*> transfers = plan.leading_to(leaf);
  const Leaf& info = plan.model.leaves[leaf];
  const Grid& grid = plan.grids[leaf];
  const auto found = linked_chunk(info, grid, transfers, chunk);
  HFSHARD_CHECK(found.has_value());
  const TensorInfo& source =
      plan.catalog.tensors[transfers[found->transfer]->sources[found->source]];
  return {plan.file_count() + source.file,
          source.begin_bytes + packed_bytes(info.dtype, found->begin),
          packed_bytes(info.dtype, grid.chunk.numel())};
}

}  // namespace

std::uint32_t Plan::group_number(std::uint32_t leaf, const ChunkIndex& index) const {
  return leaf_groups[leaf_group_begin[leaf] + index.loop_index];
}

Place Plan::place(std::uint32_t leaf, const Shape& chunk) const {
  if (grids[leaf].linked) return linked_place(*this, leaf, chunk);
  const UnitForm& unit = units[leaf];
  const ChunkIndex index = chunk_index(unit, chunk);
  const Group& group = groups[group_number(leaf, index)];
  const std::uint64_t address =
      group.address + index.unit * unit.region_bytes() + index.position * unit.stride_bytes;
  const std::uint32_t file = file_at(address);
  return {file, address - file_begin[file], unit.form.stored_bytes()};
}

std::uint32_t Plan::file_at(std::uint64_t address) const {
  const auto after = std::ranges::upper_bound(file_begin, address);
  return static_cast<std::uint32_t>(after - file_begin.begin() - 1);
}

std::uint64_t Plan::address_of(const UnitRef& ref) const {
  if (ref.group == groups.size()) return end_address();
  const Group& group = groups[ref.group];
  return group.address + ref.unit * units[group.leaf].region_bytes();
}

std::uint64_t Plan::chunks_before(const UnitRef& ref) const {
  if (ref.group == groups.size()) return totals.chunks;
  return group_chunks[ref.group] + ref.unit * units[groups[ref.group].leaf].chunks_per_unit;
}

std::uint64_t Plan::chunks_before(std::uint32_t leaf, const Shape& chunk) const {
  const UnitForm& unit = units[leaf];
  const ChunkIndex index = chunk_index(unit, chunk);
  return group_chunks[group_number(leaf, index)] + index.unit * unit.chunks_per_unit +
         index.position;
}

UnitRef Plan::unit_at(std::uint64_t address) const {
  if (address == end_address()) return {static_cast<std::uint32_t>(groups.size()), 0};
  const auto after = std::ranges::upper_bound(groups, address, {}, &Group::address);
  HFSHARD_CHECK(after != groups.begin());
  UnitRef ref;
  ref.group = static_cast<std::uint32_t>(after - groups.begin() - 1);
  const Group& group = groups[ref.group];
  const std::uint64_t region = units[group.leaf].region_bytes();
  HFSHARD_CHECK((address - group.address) % region == 0);
  ref.unit = (address - group.address) / region;
  return ref;
}

UnitRef Plan::next(const UnitRef& ref) const {
  if (ref.unit + 1 < units[groups[ref.group].leaf].units_per_group)
    return {ref.group, ref.unit + 1};
  return {ref.group + 1, 0};
}

std::span<const std::uint32_t> Plan::transfers_of(std::uint32_t leaf) const {
  return std::span(leaf_transfers)
      .subspan(leaf_transfer_begin[leaf],
               leaf_transfer_begin[leaf + 1] - leaf_transfer_begin[leaf]);
}

std::span<const std::uint32_t> Plan::fills_of(std::uint32_t leaf) const {
  return std::span(leaf_fills)
      .subspan(leaf_fill_begin[leaf], leaf_fill_begin[leaf + 1] - leaf_fill_begin[leaf]);
}

std::vector<const Transfer*> Plan::leading_to(std::uint32_t leaf) const {
  std::vector<const Transfer*> out;
  for (const std::uint32_t t : transfers_of(leaf)) out.push_back(&model.transfers[t]);
  return out;
}

std::vector<std::uint32_t> linked_files(const Plan& plan) {
  std::vector<bool> used(plan.catalog.files.size(), false);
  for (const Transfer& transfer : plan.model.transfers) {
    if (!plan.grids[transfer.target].linked) continue;
    for (const std::uint32_t source : transfer.sources)
      used[plan.catalog.tensors[source].file] = true;
  }
  std::vector<std::uint32_t> out;
  for (std::uint32_t file = 0; file < used.size(); ++file) {
    if (used[file]) out.push_back(file);
  }
  return out;
}

namespace {

// A pebibyte is several hundred times the largest model; what is above it is a mistyped size.
constexpr std::uint64_t kMaxOutputBytes = std::uint64_t{1} << 50;
constexpr std::uint64_t kMaxGroups = std::uint64_t{1} << 28;

// Counting sort of items by their target leaf: begin[] and the item indices.
template <typename Item>
void index_by_target(const std::vector<Item>& items, std::size_t leaves,
                     std::vector<std::uint32_t>& begin, std::vector<std::uint32_t>& order) {
  begin.assign(leaves + 1, 0);
  for (const Item& item : items) ++begin[item.target + 1];
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  order.resize(items.size());
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t i = 0; i < items.size(); ++i) order[next[items[i].target]++] = i;
}

// Source position of the first unit of a group: what tile order follows.
std::pair<std::uint32_t, std::uint64_t> source_position(const Plan& plan, const Group& group) {
  const auto transfers = plan.transfers_of(group.leaf);
  if (transfers.empty()) return {UINT32_MAX, 0};
  const Transfer& first = plan.model.transfers[transfers.front()];
  const Leaf& leaf = plan.model.leaves[group.leaf];
  const UnitForm& unit = plan.units[group.leaf];
  const Shape origin = unit_origin(unit, group.loop_index, 0);
  const Shape strides = leaf.shape.strides();
  std::uint64_t source = 0;
  for (const Loop& loop : first.loops) {
    const std::size_t axis = axis_of(strides, loop.dst_step);
    const auto per_index = static_cast<std::uint64_t>(loop.dst_step) / strides[axis];
    const std::uint64_t begin =
        unit.closed[axis] ? 0 : origin[axis] * plan.grids[group.leaf].chunk[axis];
    const std::uint64_t index = loop.extent > 1 ? std::min(begin / per_index, loop.extent - 1) : 0;
    source = source * loop.extent + index;
  }
  const TensorInfo& info = plan.catalog.tensors[first.sources[source]];
  return {info.file, info.begin_bytes};
}

void order_groups(Plan& plan) {
  struct Keyed {
    std::uint32_t file;
    std::uint64_t offset;
    Group group;
  };
  std::uint64_t groups = 0;
  for (std::size_t leaf = 0; leaf < plan.units.size(); ++leaf) groups += plan.units[leaf].groups;
  if (groups > kMaxGroups) {
    throw Error(ErrorCode::limit, fmt::format("the output has {} groups of chunks, more than the "
                                              "{} that a plan holds",
                                              groups, kMaxGroups))
        .hint("larger chunks are fewer: --chunk-bytes");
  }
  std::vector<Keyed> keyed;
  keyed.reserve(groups);
  for (std::uint32_t leaf = 0; leaf < plan.units.size(); ++leaf) {
    const UnitForm& unit = plan.units[leaf];
    if (unit.units_per_group == 0 || unit.chunks_per_unit == 0) continue;
    for (std::uint32_t loop = 0; loop < unit.groups; ++loop) {
      const Group group{leaf, loop, 0};
      const auto [file, offset] = source_position(plan, group);
      keyed.push_back({file, offset, group});
    }
  }
  std::ranges::sort(keyed, [](const Keyed& a, const Keyed& b) {
    return std::tie(a.file, a.offset, a.group.leaf, a.group.loop_index) <
           std::tie(b.file, b.offset, b.group.leaf, b.group.loop_index);
  });
  plan.groups.clear();
  plan.groups.reserve(keyed.size());
  for (const Keyed& item : keyed) plan.groups.push_back(item.group);
}

void place_groups(Plan& plan) {
  std::uint64_t address = 0;
  std::uint64_t chunks = 0;
  plan.group_chunks.clear();
  plan.leaf_group_begin.assign(plan.units.size() + 1, 0);
  for (std::size_t leaf = 0; leaf < plan.units.size(); ++leaf) {
    plan.leaf_group_begin[leaf + 1] = plan.leaf_group_begin[leaf] + plan.units[leaf].groups;
  }
  plan.leaf_groups.assign(plan.leaf_group_begin.back(), 0);
  for (std::uint32_t i = 0; i < plan.groups.size(); ++i) {
    Group& group = plan.groups[i];
    group.address = address;
    const UnitForm& unit = plan.units[group.leaf];
    if (plan.is_packed()) plan.group_chunks.push_back(chunks);
    address += unit.units_per_group * unit.region_bytes();
    chunks += unit.units_per_group * unit.chunks_per_unit;
    plan.leaf_groups[plan.leaf_group_begin[group.leaf] + group.loop_index] = i;
  }
  plan.totals.output_bytes = address;
  if (address > kMaxOutputBytes) {
    throw Error(ErrorCode::limit,
                fmt::format("{} chunks, each at a multiple of {}, are {} of output, more than the "
                            "{} that are planned",
                            chunks, human_bytes(plan.limits.alignment_bytes), human_bytes(address),
                            human_bytes(kMaxOutputBytes)))
        .hint("larger chunks take less: --chunk-bytes");
  }
}

// Refuses sizes that can only be a mistake, so that nothing below overflows or runs on.
void check_sizes(const CompiledModel& model) {
  std::uint64_t total = 0;
  for (const Leaf& leaf : model.leaves) {
    const std::uint64_t bits = size_bits(leaf.dtype);
    const std::uint64_t bytes = leaf.shape.numel() / 8 * bits + leaf.shape.numel() % 8 * bits / 8;
    total = leaf.shape.numel() > kMaxOutputBytes ? leaf.shape.numel() : total + bytes;
    if (total <= kMaxOutputBytes) continue;
    throw Error(ErrorCode::limit, fmt::format("the output is larger than {}; this tensor is {} {}",
                                              human_bytes(kMaxOutputBytes), to_string(leaf.dtype),
                                              to_string(leaf.shape)))
        .in_tensor(leaf.name)
        .hint("look at the sizes in config.json and at --vocab");
  }
}

// Data files are runs of units, cut by output bytes only.
void cut_files(Plan& plan) {
  const Limits& limits = plan.limits;
  const std::uint64_t most = std::clamp(plan.totals.output_bytes / limits.file_share,
                                        limits.file_min_bytes, limits.file_max_bytes);
  plan.file_begin.assign(1, 0);
  for (const Group& group : plan.groups) {
    const UnitForm& unit = plan.units[group.leaf];
    const std::uint64_t region = unit.region_bytes();
    std::uint64_t done = 0;
    while (done < unit.units_per_group) {
      const std::uint64_t address = group.address + done * region;
      const std::uint64_t used = address - plan.file_begin.back();
      const std::uint64_t room = used < most ? (most - used) / region : 0;
      if (room == 0 && used > 0) {
        plan.file_begin.push_back(address);
        continue;
      }
      done += std::max<std::uint64_t>(room, 1);
    }
  }
  if (plan.totals.output_bytes > 0) plan.file_begin.push_back(plan.totals.output_bytes);
}

// Elements that one source of a transfer makes the run read: bands, and the short holes in them.
std::uint64_t read_elements(const Transfer& transfer, const BandForm& form) {
  const IndexMap map = split_at_rows(transfer.map, transfer.source_shape);
  return BandCursor(map, form.row, form.most, form.gap).elements();
}

// How many tensors feed several leaves; the run reads them once for each.
std::uint64_t shared_tensors(const Plan& plan) {
  constexpr std::uint32_t kNone = UINT32_MAX;
  constexpr std::uint32_t kSeveral = kNone - 1;
  std::vector<std::uint32_t> leaf(plan.catalog.tensors.size(), kNone);
  std::uint64_t out = 0;
  for (const Transfer& transfer : plan.model.transfers) {
    if (plan.grids[transfer.target].linked) continue;
    for (const std::uint32_t source : transfer.sources) {
      if (leaf[source] == kNone) {
        leaf[source] = transfer.target;
      } else if (leaf[source] != transfer.target && leaf[source] != kSeveral) {
        leaf[source] = kSeveral;
        ++out;
      }
    }
  }
  return out;
}

void count_totals(Plan& plan) {
  PlanTotals& totals = plan.totals;
  totals = {.output_bytes = totals.output_bytes};
  totals.tensors = plan.catalog.tensors.size();
  for (const Transfer& transfer : plan.model.transfers) {
    if (plan.grids[transfer.target].linked) continue;
    const DType leaf_dtype = plan.model.leaves[transfer.target].dtype;
    const BandForm form = band_form(transfer, leaf_dtype, plan.limits);
    totals.source_bytes +=
        ceil_div(read_elements(transfer, form) * size_bits(transfer.source_dtype), 8) *
        transfer.sources.size();
    if (!transfer.decode) continue;
    for (const std::uint32_t scale : transfer.decode->scales)
      totals.source_bytes += plan.catalog.tensors[scale].size_bytes;
  }
  totals.shared_tensors = shared_tensors(plan);
  totals.dropped = plan.model.drops.size();
  for (std::uint32_t leaf = 0; leaf < plan.units.size(); ++leaf) {
    const UnitForm& unit = plan.units[leaf];
    if (const Grid& grid = plan.grids[leaf]; grid.linked) {
      const Leaf& info = plan.model.leaves[leaf];
      ++totals.linked_leaves;
      totals.linked_bytes += packed_bytes(info.dtype, info.shape.numel());
      totals.linked_chunks += chunk_counts(info.shape, grid.chunk).numel();
    }
    totals.units += unit.groups * unit.units_per_group;
    totals.chunks += unit.groups * unit.units_per_group * unit.chunks_per_unit;
    totals.largest_need_bytes =
        std::max(totals.largest_need_bytes, unit.region_bytes() + unit.scratch_bytes);
  }
}

Json limits_identity(const Limits& limits) {
  Json out;
  out["floor"] = limits.floor_bytes;
  out["fan"] = limits.fan_bytes;
  out["fan_small"] = limits.fan_small_bytes;
  out["slab"] = limits.slab_bytes;
  out["run"] = limits.run_bytes;
  out["merge"] = limits.merge_bytes;
  out["file_min"] = limits.file_min_bytes;
  out["file_max"] = limits.file_max_bytes;
  out["file_share"] = limits.file_share;
  out["outer_shards"] = limits.outer_shards;
  out["alignment"] = limits.alignment_bytes;
  return out;
}

// design.md 2.8: tool version, mapping, source identity and every byte-affecting option.
void identify(Plan& plan, std::string_view rules_text) {
  Json& parts = plan.identity;
  parts["version"] = kVersion;
  parts["options"] = options_json(plan.options);
  if (plan.is_packed()) parts["zstd"] = zstd_version();
  parts["rules"] = sha256_hex(rules_text);
  parts["limits"] = limits_identity(plan.limits);
  if (plan.options.link) parts["limits"]["link_piece"] = plan.limits.link_piece_bytes;
  parts["family"] = plan.model.family;
  for (const FamilyFile& family : all_families(plan.options.mapping.files)) {
    if (family.name != plan.model.family) continue;
    parts["mapping"] = sha256_hex(family.text);
    parts["parts"] = sha256_hex(embedded_common());
  }
  Json& source = parts["source"];
  source["config"] = sha256_hex(plan.catalog.config_text);
  for (const CatalogFile& file : plan.catalog.files) {
    Json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.size_bytes;
    entry["header"] = file.header_sha256;
    source["files"].array().push_back(std::move(entry));
  }
  plan.id = sha256_hex(dump_json(parts));
}

Shape refined_shard(const Leaf& leaf, const AxisRules& rules, const std::vector<Mesh>& meshes) {
  Shape shard = leaf.shape;
  for (const Mesh& mesh : meshes) {
    const Shape counts = shard_counts(leaf, rules, mesh);
    for (std::size_t d = 0; d < shard.rank(); ++d) {
      if (shard[d] != 0) shard[d] = std::gcd(shard[d], leaf.shape[d] / counts[d]);
    }
  }
  for (std::size_t d = 0; d < shard.rank(); ++d) shard[d] = std::max<std::uint64_t>(shard[d], 1);
  return shard;
}

// A leaf that the run writes.
void cut_leaf(Plan& plan, std::uint32_t index, const FormFunction& form) {
  const Leaf& leaf = plan.model.leaves[index];
  const std::vector<const Transfer*> transfers = plan.leading_to(index);
  const Transfer* first = transfers.empty() ? nullptr : transfers.front();
  plan.grids.push_back(cut_grid(leaf, refined_shard(leaf, plan.rules, plan.meshes),
                                source_order(leaf, first), plan.options.chunk_bytes, plan.limits,
                                row_axes(leaf, first)));
  plan.units.push_back(make_unit_form(leaf, plan.grids.back(), transfers,
                                      form(leaf, plan.grids.back()), plan.limits));
}

// A leaf whose chunks are where they are; false, and noted, if that cannot be.
bool link_leaf(Plan& plan, std::uint32_t index) {
  const Leaf& leaf = plan.model.leaves[index];
  LinkChoice choice = link_grid(leaf, plan.leading_to(index), !plan.fills_of(index).empty(),
                                refined_shard(leaf, plan.rules, plan.meshes),
                                plan.options.chunk_bytes, plan.limits);
  if (!choice.grid) {
    plan.not_linked.push_back({index, std::move(choice.why)});
    return false;
  }
  plan.grids.push_back(*choice.grid);
  plan.units.push_back(UnitForm{});  // no units
  return true;
}

}  // namespace

void index_plan(Plan& plan) {
  const std::size_t leaves = plan.model.leaves.size();
  index_by_target(plan.model.transfers, leaves, plan.leaf_transfer_begin, plan.leaf_transfers);
  index_by_target(plan.model.fills, leaves, plan.leaf_fill_begin, plan.leaf_fills);
  plan.slot_begin.assign(1, 0);
  plan.slot_begin.reserve(plan.model.transfers.size() + 1);
  for (const Transfer& transfer : plan.model.transfers) {
    plan.slot_begin.push_back(plan.slot_begin.back() + transfer.sources.size());
  }
}

void lay_out(Plan& plan) {
  order_groups(plan);
  place_groups(plan);
  cut_files(plan);
  count_totals(plan);
}

Plan build_plan(Catalog catalog, CompiledModel model, const PlanOptions& options,
                const FormFunction& form, const Limits& limits) {
  Plan plan;
  plan.catalog = std::move(catalog);
  plan.model = std::move(model);
  plan.options = options;
  plan.limits = limits;
  check_sizes(plan.model);
  std::string rules_text = plan.model.axis_rules;
  if (rules_text.empty()) rules_text = default_axis_rules(plan.model.scheme);
  if (options.rules_text) rules_text = *options.rules_text;
  plan.rules = parse_axis_rules(rules_text, options.rules_name);
  for (const std::string& text : options.meshes)
    plan.meshes.push_back(parse_mesh(text, plan.rules));
  if (plan.meshes.empty()) plan.meshes.push_back(default_mesh(plan.model.leaves, plan.rules));
  index_plan(plan);
  plan.grids.reserve(plan.model.leaves.size());
  plan.units.reserve(plan.model.leaves.size());
  for (std::uint32_t i = 0; i < plan.model.leaves.size(); ++i) {
    if (!options.link || !link_leaf(plan, i)) cut_leaf(plan, i, form);
  }
  lay_out(plan);
  identify(plan, rules_text);
  return plan;
}

}  // namespace hfshard
