#include "service/stored_load.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/text.h"
#include "format/formats.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/cost/mesh_load.h"
#include "plan/layout/layout.h"
#include "service/place.h"
#include "service/prepare.h"
#include "service/source.h"
#include "service/summary.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the axis rules that a plan for the same model would use to split its leaves.
std::string rules_of(const CompiledModel& model) {
  if (!model.axis_rules.empty()) return model.axis_rules;
  for (const FamilyFile& family : all_families({})) {
    if (family.name != model.family) continue;
    const MappingTable table = load_table(family);
    const Scheme* scheme = table.scheme(model.scheme);
    if (scheme != nullptr && !scheme->axis_rules.is_null()) return dump_json(scheme->axis_rules);
  }
  return default_axis_rules(model.scheme);
}

// Returns the bytes and the number of the stored chunks.
std::pair<std::uint64_t, std::uint64_t> stored_bytes(const Checkpoint& checkpoint,
                                                     std::uint32_t array, const Grid& grid) {
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;
  const Shape& shape = checkpoint.catalog().tensors[array].shape;
  for_each_chunk(chunk_counts(shape, grid.chunk), [&](const Shape& at) {
    const auto place = checkpoint.find_piece(array, at);
    if (place && place->range) {
      bytes += place->range->end - place->range->begin;
      ++chunks;
    }
    return true;
  });
  return {bytes, chunks};
}

// Returns the form of an array's chunks, as a plan has it for chunks that it writes. Compressed
// chunks get their mean size.
PieceForm stored_form(const Checkpoint& checkpoint, std::uint32_t array, const Leaf& leaf,
                      const Grid& grid, const Format& format) {
  PieceForm out;
  out.cells = static_cast<std::uint32_t>(chunk_counts(grid.chunk, grid.inner).numel());
  if (grid.has_inner()) {
    const PieceForm written = format.form(leaf, grid, {});
    out.head_bytes = written.head_bytes;
    out.tail_bytes = written.tail_bytes;
  }
  const auto [bytes, chunks] = stored_bytes(checkpoint, array, grid);
  const std::uint64_t around = chunks * (std::uint64_t{out.head_bytes} + out.tail_bytes);
  out.cell_bytes =
      ceil_div(bytes - std::min(bytes, around), std::max<std::uint64_t>(chunks * out.cells, 1));
  return out;
}

CutLeaves stored_cut(const Checkpoint& checkpoint, const std::vector<Leaf>& leaves,
                     const Format& format) {
  CutLeaves out;
  for (const Leaf& leaf : leaves) {
    const std::uint32_t array = checkpoint.catalog().find(leaf.name).value();
    Grid grid = checkpoint.catalog().stored_grid_of(array);
    for (std::size_t d = 0; d < grid.chunk.rank(); ++d) {
      grid.chunk[d] = std::max<std::uint64_t>(grid.chunk[d], 1);
      grid.inner[d] = std::max<std::uint64_t>(grid.inner[d], 1);
    }
    UnitForm unit;  // without groups: nothing is moved
    unit.form = stored_form(checkpoint, array, leaf, grid, format);
    out.grids.push_back(grid);
    out.units.push_back(unit);
  }
  return out;
}

void note_unknown(const std::vector<Leaf>& leaves, Reporter& reporter) {
  const auto unknown = std::ranges::count_if(
      leaves, [](const Leaf& leaf) { return leaf.shape.rank() > 0 && leaf.axes.empty(); });
  if (unknown == 0) return;
  reporter.note(
      fmt::format("the axes of {} of {} arrays are unknown, so the estimate assumes that each "
                  "device reads them whole; pass --axes",
                  unknown, leaves.size()));
}

// Loaders of parameters don't read the step number, and plan doesn't count it.
void leave_out_step(CompiledModel& model) {
  const std::string step = tree_extras(model.scheme).step;
  if (model.leaves.size() > 1)
    keep_leaves(model, [&](const Leaf& leaf) { return step.empty() || leaf.name != step; });
}

}  // namespace

std::vector<LoadReport> stored_loads(const SourceName& name, const InspectOptions& options,
                                     const std::vector<UnreadableArray>& unreadable,
                                     Reporter& reporter) {
  if (options.devices_per_host == 0)
    throw Error(ErrorCode::usage, "pass --devices-per-host 1 or more");
  const StorePath place = find_place(name);
  const auto recognised = recognise(place);
  if (!recognised || recognised->format->plain()) {
    throw Error(ErrorCode::usage, "the arrays of this checkpoint aren't split into chunks")
        .in_file(name.text)
        .hint("run hfshard plan --load-mesh to see what loading its conversion would cost");
  }
  PlanOptions asked;
  asked.mapping.scheme = "hf";
  asked.mapping.flat_names = true;
  if (!options.filter.empty()) asked.mapping.include = {options.filter};
  for (const UnreadableArray& array : unreadable)
    asked.mapping.exclude.push_back(glob_of(array.name));
  asked.tree.same = true;
  asked.tree.step = name.step;
  asked.tree.items = name.items;
  asked.tree.axes = options.axes;
  OpenedSource opened = open_source_model(place, asked);
  leave_out_step(opened.model);
  take_axis_rules(recognised->format->layout(), opened.model);
  const AxisRules rules = parse_axis_rules(
      options.rules_text ? *options.rules_text : rules_of(opened.model), options.rules_name);
  note_unknown(opened.model.leaves, reporter);
  CutLeaves cut = stored_cut(*opened.checkpoint, opened.model.leaves, *recognised->format);
  const Layout layout(make_model(std::move(opened.checkpoint), std::move(opened.model)),
                      std::move(cut), Limits(), false, recognised->format->layout());
  std::vector<LoadReport> out;
  for (const std::string& text : options.load_meshes) {
    out.push_back(load_report(
        layout, load_cost(layout, rules, parse_mesh(text, rules), options.devices_per_host)));
  }
  return out;
}

}  // namespace hfshard
