#include "service/summary.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "base/json.h"
#include "format/formats.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "service/loadable.h"

namespace hfshard {
namespace {

std::vector<DroppedTensors> drops_by_reason(const Plan& plan) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const Drop& drop : plan.model().drops)
    by_reason[drop.why].push_back(plan.catalog().tensors[drop.source].name);
  for (const LeftOutObject& object : plan.model().left_out)
    by_reason[object.why].push_back(object.name);
  std::vector<DroppedTensors> out;
  out.reserve(by_reason.size());
  for (auto& [why, names] : by_reason) out.push_back({why, std::move(names)});
  return out;
}

// config.json doesn't matter if names and shapes stay as stored.
std::vector<std::string> warnings_of(const Plan& plan) {
  const MappingOptions& mapping = plan.options().mapping;
  const std::string& config = plan.catalog().config_text;
  if (!has_rules(mapping) || config.empty()) return {};
  const std::string doubt = config_doubt(parse_json(config, "config.json"), mapping.files);
  return doubt.empty() ? std::vector<std::string>{} : std::vector<std::string>{doubt};
}

std::uint64_t bytes_of(std::uint64_t elements, DType dtype) {
  return (elements * size_bits(dtype) + 7) / 8;
}

// Counts the dtype changes of transfers. Each scale tensor counts once.
std::vector<DTypeChange> dtype_changes(const Plan& plan) {
  std::map<std::pair<std::string, std::string>, DTypeChange> changes;
  std::set<std::uint32_t> scales;
  for (const Transfer& transfer : plan.model().transfers) {
    const DType to = plan.model().leaves[transfer.target].dtype;
    if (!transfer.decode && transfer.source_dtype == to) continue;
    const std::string from(transfer.decode ? to_string(transfer.decode->form.code)
                                           : to_string(transfer.source_dtype));
    DTypeChange& change = changes[{from, std::string(to_string(to))}];
    change.from = from;
    change.to = to_string(to);
    change.decoded = transfer.decode != nullptr;
    const std::uint64_t count = transfer.map.count();
    change.output_bytes += transfer.sources.size() * bytes_of(count, to);
    change.source_bytes +=
        transfer.sources.size() *
        bytes_of(std::min(count, transfer.source_shape.numel()), transfer.source_dtype);
    if (!transfer.decode) continue;
    transfer.decode->for_each_tensor([&](std::uint32_t tensor) {
      if (scales.insert(tensor).second)
        change.source_bytes += plan.catalog().tensors[tensor].size_bytes;
    });
  }
  std::vector<DTypeChange> out;
  out.reserve(changes.size());
  for (auto& [dtypes, change] : changes) out.push_back(std::move(change));
  return out;
}

std::uint64_t parameters_of(const Plan& plan) {
  std::uint64_t out = 0;
  for (const Leaf& leaf : plan.model().leaves) {
    if (is_float(leaf.dtype)) out += leaf.shape.numel();
  }
  return out;
}

void add_totals(const Plan& plan, PlanSummary& out) {
  const LayoutTotals& totals = plan.totals();
  out.source_files = plan.model().source().data_files();
  out.tensors = totals.tensors;
  out.dropped = totals.dropped;
  out.source_bytes = totals.source_bytes;
  out.shared_tensors = totals.shared_tensors;
  out.objects = plan.model().objects.size();
  out.output_bytes = totals.output_bytes + plan.model().object_bytes();
  out.files = plan.file_count() + (out.objects > 0 ? 1 : 0);
  out.leaves = plan.model().leaves.size();
  out.chunks = totals.chunks;
  out.units = totals.units;
  out.largest_unit_bytes = totals.largest_need_bytes;
  out.linked_leaves = totals.linked_leaves;
  out.linked_bytes = totals.linked_bytes;
  out.linked_chunks = totals.linked_chunks;
}

bool has_tokenizer(const Catalog& catalog) {
  return std::ranges::any_of(catalog.side_files,
                             [](const std::string& name) { return name.starts_with("tokenizer"); });
}

// Adds the loader's arguments. Adds nothing if no loader reads the output.
void add_load_words(const Plan& plan, PlanSummary& out) {
  const CompiledModel& model = plan.model();
  const std::string& scheme = model.loader.empty() ? model.scheme : model.loader;
  const LoaderOptions loader = loader_options(scheme);
  const std::string& target = plan.options().target;
  const bool takes_format =
      loader.format.empty() || loader.format == target || format_of(target).discards();
  if (model.left_out_leaves > 0 || loader.path.empty() || !takes_format) {
    out.model_names.clear();
    return;
  }
  const std::string step = tree_extras(scheme).step;  // a tree of parameters only has it too
  const bool has_state = std::ranges::any_of(model.leaves, [&](const Leaf& leaf) {
    return leaf.name != step && is_training_state(leaf.name);
  });
  out.load_path = has_state && !loader.state_path.empty() ? loader.state_path : loader.path;
  if (has_state) out.load_run = loader.run;
  out.load_words = model.load_words;
  out.load_note = model.load_note;
  if (has_state && !loader.with_state.empty()) out.load_words.push_back(loader.with_state);
  if (has_tokenizer(plan.catalog())) out.load_assets = loader.assets;
}

}  // namespace

PlanSummary summarise(const Plan& plan) {
  PlanSummary out;
  out.id = plan.id();
  out.identity = dump_json(plan.identity());
  out.family = plan.model().family;
  out.scheme = plan.model().scheme;
  out.dialect = asked_dialect(plan.options().mapping);
  out.stacked = plan.model().stacked;
  out.compresses = plan.is_packed();
  out.source = plan.catalog().location;
  for (const Mesh& mesh : plan.meshes()) out.meshes.push_back(to_string(mesh));
  out.mesh_chosen = plan.options().meshes.empty();
  out.step = plan.options().tree.step;
  out.notes = plan.catalog().notes;
  out.notes.insert(out.notes.end(), plan.model().notes.begin(), plan.model().notes.end());
  out.warnings = warnings_of(plan);
  const std::vector<std::string>& more = plan.model().warnings;
  out.warnings.insert(out.warnings.end(), more.begin(), more.end());
  std::ranges::move(load_doubts(plan), std::back_inserter(out.warnings));
  out.drops = drops_by_reason(plan);
  out.model_names = plan.model().model_names;
  add_load_words(plan, out);
  out.carries_tokenizer = has_tokenizer(plan.catalog());
  out.side_directory = plan.files().side_directory;
  out.whole_arrays = plan.files().whole_arrays;
  out.parameters = parameters_of(plan);
  out.dtypes = dtype_changes(plan);
  add_totals(plan, out);
  out.links = plan.options().link;
  for (const NotLinked& item : plan.not_linked())
    out.not_linked.push_back({plan.model().leaves[item.leaf].name, item.why});
  if (!out.links) return out;
  for (const Mesh& mesh : plan.meshes())
    out.loads.push_back(load_report(plan, load_cost(plan, plan.rules(), mesh, 1)));
  return out;
}

PlannedLeaf planned_leaf(const Plan& plan, std::size_t leaf) {
  const Leaf& info = plan.model().leaves[leaf];
  const Grid& grid = plan.grids()[leaf];
  PlannedLeaf out;
  out.path = info.name;
  out.dtype = info.dtype;
  out.shape = info.shape;
  for (std::size_t d = 0; d < info.shape.rank(); ++d) out.axes.emplace_back(info.axis(d));
  out.shard = grid.shard;
  out.chunk = grid.chunk;
  if (grid.has_inner()) out.inner = grid.inner;
  out.linked = grid.linked;
  out.chunks = chunk_counts(info.shape, grid.chunk).numel();
  out.bytes = packed_bytes(info.dtype, info.shape.numel());
  return out;
}

LoadReport load_report(const Layout& layout, const LoadCost& cost) {
  LoadReport out;
  out.mesh = to_string(cost.mesh);
  for (const HostLoad& host : cost.hosts)
    out.hosts.push_back({host.needed_bytes, host.read_bytes, host.requests});
  out.needed_bytes = cost.needed_bytes();
  out.read_bytes = cost.read_bytes();
  out.largest_request_bytes = cost.largest_request_bytes;
  for (const std::uint32_t leaf : cost.refused)
    out.refused.push_back(layout.model().leaves[leaf].name);
  return out;
}

}  // namespace hfshard
