#include "plan/plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/digest.h"
#include "base/heap.h"
#include "base/text.h"
#include "base/version.h"
#include "base/zstd.h"
#include "bytes/local/files.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/family.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/cost/link_grid.h"
#include "plan/layout/band.h"
#include "plan/layout/source_choice.h"
#include "plan/options_json.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

std::uint64_t of_options(const PlanOptions& options) {
  const MappingOptions& mapping = options.mapping;
  return heap_bytes(options.meshes) + (options.rules_text ? heap_bytes(*options.rules_text) : 0) +
         heap_bytes(mapping.options) + heap_bytes(mapping.include) + heap_bytes(mapping.exclude) +
         heap_bytes(mapping.drop) +
         heap_bytes(mapping.files,
                    [](const MappingFile& file) {
                      return heap_bytes(file.family) + heap_bytes(file.name) +
                             heap_bytes(file.text) + heap_bytes(file.path);
                    }) +
         heap_bytes(mapping.casts, [](const Cast& cast) { return heap_bytes(cast.glob); });
}

std::uint64_t of_rule(const AxisRules::Rule& rule) {
  return heap_bytes(rule.logical) + heap_bytes(rule.mesh_axes);
}

std::uint64_t of_mesh(const Mesh& mesh) {
  return heap_bytes(mesh.axes, [](const Mesh::Axis& axis) { return heap_bytes(axis.name); });
}

}  // namespace

Plan::Plan(Layout layout, PlanFacts facts)
    : Layout(std::move(layout)),
      facts_(std::move(facts)),
      id_(sha256_hex(dump_json(facts_.identity))) {}

std::uint64_t Plan::heap_bytes() const {
  return Layout::heap_bytes() + of_options(facts_.options) +
         hfshard::heap_bytes(facts_.rules.rules, of_rule) +
         hfshard::heap_bytes(facts_.meshes, of_mesh) + hfshard::heap_bytes(facts_.identity) +
         hfshard::heap_bytes(id_) +
         hfshard::heap_bytes(facts_.not_linked,
                             [](const NotLinked& item) { return hfshard::heap_bytes(item.why); });
}

std::string Plan::file_path(std::uint32_t file) const {
  if (file < data_files()) return files().data_file(file, data_files());
  const std::string& name = catalog().files[file - data_files()].name;
  return options().in_place ? name : files().linked_prefix.value_or("") + name;
}

std::string Plan::item_directory(const std::string& step) const {
  return options().in_place || files().item.empty() ? step : join_path(step, files().item);
}

// A chunk of a linked leaf, in a file of the source.
Place Plan::linked_place(std::uint32_t leaf, const Shape& chunk) const {
  const std::vector<const Transfer*> transfers = model().leading_to(leaf);
  const Leaf& info = model().leaves[leaf];
  const Grid& grid = grids()[leaf];
  const auto found = linked_chunk(info, grid, transfers, chunk);
  HFSHARD_CHECK(found.has_value());
  const TensorInfo& source = catalog().tensors[transfers[found->transfer]->sources[found->source]];
  return {data_files() + source.file, source.begin_bytes + packed_bytes(info.dtype, found->begin),
          packed_bytes(info.dtype, grid.chunk.numel())};
}

Place Plan::place(std::uint32_t leaf, const Shape& chunk) const {
  if (grids()[leaf].linked) return linked_place(leaf, chunk);
  const std::uint64_t address = address_of(leaf, chunk);
  const std::uint32_t file = file_at(address);
  return {file, offset_in(file, address), units()[leaf].form.stored_bytes()};
}

std::vector<std::uint32_t> Plan::linked_files() const {
  std::vector<bool> used(catalog().files.size(), false);
  for (const Transfer& transfer : model().transfers) {
    if (!grids()[transfer.target].linked) continue;
    for (const std::uint32_t source : transfer.sources) used[catalog().tensors[source].file] = true;
  }
  std::vector<std::uint32_t> out;
  for (std::uint32_t file = 0; file < used.size(); ++file) {
    if (used[file]) out.push_back(file);
  }
  return out;
}

namespace {

// Refuses sizes that can only be a mistake, so that nothing below overflows or runs on.
void check_sizes(const Model& model) {
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
        .hint("check the sizes in config.json and --vocab");
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
Json identity_of(const Model& model, const PlanOptions& options, const Limits& limits,
                 std::string_view rules_text) {
  Json parts;
  parts["version"] = kVersion;
  parts["options"] = options_json(options);
  if (options.encoding.zstd_level != 0) parts["zstd"] = zstd_version();
  parts["rules"] = sha256_hex(rules_text);
  parts["limits"] = limits_identity(limits);
  if (options.link) parts["limits"]["link_piece"] = limits.link_piece_bytes;
  parts["family"] = model.family;
  for (const FamilyFile& family : all_families(options.mapping.files)) {
    if (family.name != model.family) continue;
    parts["mapping"] = sha256_hex(family.text);
    parts["parts"] = sha256_hex(embedded_common());
  }
  if (!model.objects.empty()) parts["objects"] = std::uint64_t{model.objects.size()};
  Json& source = parts["source"];
  source["config"] = sha256_hex(model.catalog().config_text);
  if (!model.source_dialect.empty()) source["dialect"] = model.source_dialect;
  for (const CatalogFile& file : model.catalog().files) {
    Json entry;
    entry["name"] = file.name;
    entry["bytes"] = file.size_bytes;
    entry["header"] = file.header_sha256;
    source["files"].array().push_back(std::move(entry));
  }
  return parts;
}

Shape refined_shard(const Leaf& leaf, const AxisRules& rules, const std::vector<Mesh>& meshes,
                    bool uneven) {
  Shape shard = leaf.shape;
  for (const Mesh& mesh : meshes) {
    const Shape counts = shard_counts(leaf, rules, mesh, uneven);
    for (std::size_t d = 0; d < shard.rank(); ++d) {
      if (counts[d] == 1) continue;
      // The first mesh that splits a dim need not divide it.
      const std::uint64_t part = ceil_div(leaf.shape[d], counts[d]);
      shard[d] = shard[d] == leaf.shape[d] ? part : std::gcd(shard[d], part);
    }
  }
  for (std::size_t d = 0; d < shard.rank(); ++d) shard[d] = std::max<std::uint64_t>(shard[d], 1);
  return shard;
}

// Cuts the leaves of a model as the options ask.
class LeafCutter {
 public:
  LeafCutter(const Model& model, const PlanFacts& facts, const FormFunction& form,
             const Limits& limits, const FileLayout& files)
      : model_(model),
        facts_(facts),
        form_(form),
        limits_(limits),
        whole_(files.whole_arrays),
        uneven_(files.ceil_shards) {}

  CutLeaves cut(std::vector<NotLinked>& not_linked) const {
    CutLeaves out;
    out.split = choose_split();
    out.grids.reserve(model_.leaves.size());
    out.units.reserve(model_.leaves.size());
    for (std::uint32_t leaf = 0; leaf < model_.leaves.size(); ++leaf) {
      if (!facts_.options.link || !link_leaf(leaf, out, not_linked)) cut_leaf(leaf, out);
    }
    return out;
  }

 private:
  // A leaf that the run writes.
  void cut_leaf(std::uint32_t index, CutLeaves& out) const {
    const Leaf& leaf = model_.leaves[index];
    const std::vector<const Transfer*> transfers = model_.leading_to(index);
    out.grids.push_back(grid_of(leaf, transfers));
    const SourceChoice source = choose_source(model_, leaf, transfers, out.split, limits_);
    const SourcePieces* pieces = source.pieces ? &*source.pieces : nullptr;
    const PieceForm form = form_(leaf, out.grids.back());
    UnitForm unit = whole_
                        ? make_sliced_unit(leaf, transfers, form, limits_, pieces)
                        : make_unit_form(leaf, out.grids.back(), transfers, form, limits_, pieces);
    unit.scratch_bytes = std::max(unit.scratch_bytes, source.split_scratch_bytes);
    out.units.push_back(unit);
  }

  Grid grid_of(const Leaf& leaf, const std::vector<const Transfer*>& transfers) const {
    if (whole_) {
      const Shape chunk = whole_chunk(leaf.shape);
      return {chunk, chunk, chunk};
    }
    const Transfer* first = transfers.empty() ? nullptr : transfers.front();
    return cut_grid(leaf, refined_shard(leaf, facts_.rules, facts_.meshes, uneven_),
                    source_order(leaf, first), facts_.options.chunk_bytes, limits_,
                    row_axes(leaf, first));
  }

  // Returns the arrays whose pieces some leaf can't take in stored order. An array that is split
  // for one leaf is split for all. That can let the leaf take its other arrays in stored order, so
  // the search repeats until it adds nothing.
  SplitArrays choose_split() const {
    std::vector<std::uint32_t> refused;
    SplitArrays out;
    if (std::ranges::all_of(model_.catalog().tensors, &TensorInfo::is_whole)) return out;
    for (bool added = true; added;) {
      added = false;
      for (const Leaf& leaf : model_.leaves) {
        const auto index = static_cast<std::uint32_t>(&leaf - model_.leaves.data());
        const std::vector<const Transfer*> transfers = model_.leading_to(index);
        SourceChoice source = choose_source(model_, leaf, transfers, out, limits_);
        if (source.pieces) {
          const Grid grid = grid_of(leaf, transfers);
          const PieceForm form = form_(leaf, grid);
          const UnitForm unit =
              whole_ ? find_sliced_unit(leaf, transfers, form, limits_, &*source.pieces)
                     : find_unit_form(leaf, grid, transfers, form, limits_, &*source.pieces);
          if (!fits_slab(unit, limits_)) source.refused = source.taken;
        }
        added = add_refused(source, refused) || added;
      }
      if (added) out = split_arrays(model_, refused, limits_);
    }
    return out;
  }

  // A leaf whose chunks are where they are; false, and noted, if that cannot be.
  bool link_leaf(std::uint32_t index, CutLeaves& out, std::vector<NotLinked>& not_linked) const {
    const Leaf& leaf = model_.leaves[index];
    LinkChoice choice = link_grid(leaf, model_.leading_to(index), !model_.fills_of(index).empty(),
                                  refined_shard(leaf, facts_.rules, facts_.meshes, uneven_),
                                  facts_.options.chunk_bytes, limits_);
    if (!choice.grid) {
      not_linked.push_back({index, std::move(choice.why)});
      return false;
    }
    out.grids.push_back(*choice.grid);
    out.units.push_back(UnitForm{});  // no units
    return true;
  }

  const Model& model_;
  const PlanFacts& facts_;
  const FormFunction& form_;
  const Limits& limits_;
  bool whole_;
  bool uneven_;
};

}  // namespace

Plan build_plan(std::shared_ptr<const Model> model, const PlanOptions& options,
                const FormFunction& form, const FileLayout& files, const Limits& sizes,
                const ArrayFilesFunction& put) {
  Limits limits = sizes;
  if (files.alignment_bytes != 0) limits.alignment_bytes = files.alignment_bytes;
  if (!files.inner_chunks && !files.whole_arrays) limits.outer_shards = UINT64_MAX;
  check_sizes(*model);
  std::string rules_text = model->axis_rules;
  if (rules_text.empty()) rules_text = default_axis_rules(model->scheme);
  if (options.rules_text) rules_text = *options.rules_text;
  PlanFacts facts;
  facts.options = options;
  facts.rules = parse_axis_rules(rules_text, options.rules_name);
  add_mesh_rules(model->leaves, facts.rules);
  if (model->structure != nullptr) add_mesh_axes(model->structure->mesh_axes, facts.rules);
  for (const std::string& text : options.meshes)
    facts.meshes.push_back(parse_mesh(text, facts.rules));
  if (facts.meshes.empty() && !files.whole_arrays)
    facts.meshes.push_back(default_mesh(model->leaves, facts.rules));
  facts.identity = identity_of(*model, options, limits, rules_text);
  CutLeaves cut = LeafCutter(*model, facts, form, limits, files).cut(facts.not_linked);
  Layout layout(std::move(model), std::move(cut), limits, options.encoding.zstd_level != 0, files,
                put);
  return {std::move(layout), std::move(facts)};
}

}  // namespace hfshard
