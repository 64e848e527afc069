#include "tool/plan_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

Json json_shape(const Shape& shape) {
  Json out{Json::Array{}};
  for (const std::uint64_t extent : shape) out.array().emplace_back(extent);
  return out;
}

std::string list(const Shape& shape) {
  std::vector<std::string> parts;
  for (const std::uint64_t extent : shape) parts.push_back(std::to_string(extent));
  return "[" + join(parts, ", ") + "]";
}

std::string mesh_text(const Plan& plan) {
  std::vector<std::string> parts;
  for (const Mesh& mesh : plan.meshes) {
    parts.push_back(mesh.axes.empty() ? "one device" : to_string(mesh));
  }
  return join(parts, " and ") +
         (plan.options.meshes.empty() ? " (chosen, pass --mesh to change)" : "");
}

}  // namespace

void add_linked(const Plan& plan, Json& out) {
  out["linked_bytes"] = plan.totals.linked_bytes;
  out["linked_leaves"] = plan.totals.linked_leaves;
  out["linked_chunks"] = plan.totals.linked_chunks;
  Json& rest = out["not_linked"] = Json::Array{};
  for (const NotLinked& item : plan.not_linked) {
    Json entry;
    entry["path"] = plan.model.leaves[item.leaf].path;
    entry["why"] = item.why;
    rest.array().push_back(std::move(entry));
  }
}

Json outcome_json(const Plan& plan, const RunResult& result) {
  Json out;
  out["plan_id"] = plan.id;
  out["path"] = result.path;
  out["published"] = result.published || result.already_done;
  out["already_done"] = result.already_done;
  out["root_digest"] = result.root_digest;
  out["seconds"] = result.seconds;
  return out;
}

Json leaf_json(const Plan& plan, std::size_t index) {
  const Leaf& leaf = plan.model.leaves[index];
  const Grid& grid = plan.grids[index];
  Json out;
  out["path"] = leaf.path;
  out["shape"] = json_shape(leaf.shape);
  out["dtype"] = to_string(leaf.dtype);
  out["axes"] = Json::Array{};
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    out["axes"].array().push_back(leaf.axis(d).empty() ? Json() : Json(leaf.axis(d)));
  }
  out["shard"] = json_shape(grid.shard);
  out["chunk"] = json_shape(grid.chunk);
  if (grid.has_inner()) out["inner"] = json_shape(grid.inner);
  if (grid.linked) out["linked"] = true;
  out["chunks"] = chunk_counts(leaf.shape, grid.chunk).numel();
  out["bytes"] = packed_bytes(leaf.dtype, leaf.shape.numel());
  return out;
}

Json plan_json(const Plan& plan, const Budget& budget) {
  Json out;
  out["plan_id"] = plan.id;
  out["family"] = plan.model.family;
  out["identity"] = plan.identity;
  out["meshes"] = Json::Array{};
  for (const Mesh& mesh : plan.meshes) out["meshes"].array().emplace_back(to_string(mesh));
  out["tensors"] = plan.totals.tensors;
  out["dropped"] = plan.totals.dropped;
  out["source_bytes"] = plan.totals.source_bytes;
  out["shared_tensors"] = plan.totals.shared_tensors;
  out["output_bytes"] = plan.totals.output_bytes;
  out["files"] = std::uint64_t{plan.file_count()};
  out["chunks"] = plan.totals.chunks;
  out["units"] = plan.totals.units;
  if (plan.options.link) add_linked(plan, out);
  out["largest_unit_bytes"] = plan.totals.largest_need_bytes;
  out["need_memory_bytes"] = budget.need_bytes;
  out["control_memory_bytes"] = budget.control_bytes;
  out["peak_memory_bytes"] = budget.control_bytes + budget.fixed_bytes + budget.arena_bytes;
  out["model_names"] = Json::Array{};
  for (const std::string& name : plan.model.model_names)
    out["model_names"].array().emplace_back(name);
  return out;
}

Json load_json(const Plan& plan, const LoadCost& cost) {
  Json out;
  out["mesh"] = to_string(cost.mesh);
  out["hosts"] = std::uint64_t{cost.hosts.size()};
  out["needed_bytes"] = cost.needed_bytes();
  out["read_bytes"] = cost.read_bytes();
  out["largest_request_bytes"] = cost.largest_request_bytes;
  out["per_host"] = Json::Array{};
  for (const HostLoad& host : cost.hosts) {
    Json entry;
    entry["needed_bytes"] = host.needed_bytes;
    entry["read_bytes"] = host.read_bytes;
    entry["requests"] = host.requests;
    out["per_host"].array().push_back(std::move(entry));
  }
  out["refused"] = Json::Array{};
  for (const std::uint32_t leaf : cost.refused)
    out["refused"].array().emplace_back(plan.model.leaves[leaf].path);
  return out;
}

void print_load(const Plan& plan, const LoadCost& cost) {
  HostLoad most;
  for (const HostLoad& host : cost.hosts) {
    most.needed_bytes = std::max(most.needed_bytes, host.needed_bytes);
    most.read_bytes = std::max(most.read_bytes, host.read_bytes);
    most.requests = std::max(most.requests, host.requests);
  }
  const double needed = static_cast<double>(std::max<std::uint64_t>(cost.needed_bytes(), 1));
  print_line(
      fmt::format("load      on {}: a host of {} needs {}, reads {} in {} requests ({:.2f}x)",
                  to_string(cost.mesh), cost.hosts.size(), human_bytes(most.needed_bytes),
                  human_bytes(most.read_bytes), most.requests,
                  static_cast<double>(cost.read_bytes()) / needed));
  if (cost.refused.empty()) return;
  print_line(
      fmt::format("warning   Orbax's byte limiter refuses {} leaves there, {} the first: a "
                  "request of up to {}; use this mesh for --mesh, or set "
                  "restore_concurrent_gb above it",
                  cost.refused.size(), plan.model.leaves[cost.refused.front()].path,
                  human_bytes(cost.largest_request_bytes)));
}

// What share is linked, and what is not, by reason.
void print_links(const Plan& plan) {
  const auto all = static_cast<double>(plan.totals.linked_bytes + plan.totals.output_bytes);
  const double share = all > 0 ? 100.0 * static_cast<double>(plan.totals.linked_bytes) / all : 0;
  print_line(fmt::format("linked    {:.1f}% of the bytes: {} in {} chunks of {} leaves", share,
                         human_bytes(plan.totals.linked_bytes), plan.totals.linked_chunks,
                         plan.totals.linked_leaves));
  std::map<std::string, std::vector<std::uint32_t>> reasons;
  for (const NotLinked& item : plan.not_linked) reasons[item.why].push_back(item.leaf);
  for (const auto& [why, leaves] : reasons) {
    print_line(fmt::format("converted {} leaves, {} the first: {}", leaves.size(),
                           plan.model.leaves[leaves.front()].path, why));
  }
}

void print_plan(const Plan& plan, const Budget& budget) {
  constexpr std::size_t kShownLeaves = 400;
  print_line(fmt::format("plan      {}", plan.id));
  print_line(fmt::format("family    {} ({}, {})", plan.model.family, plan.model.scheme,
                         plan.model.stacked ? "stacked" : "separate"));
  print_line(fmt::format("mesh      {}", mesh_text(plan)));
  print_line(fmt::format("source    {} tensors in {} files, {} read", plan.totals.tensors,
                         plan.catalog.files.size(), human_bytes(plan.totals.source_bytes)));
  if (plan.totals.shared_tensors > 0) {
    print_line(fmt::format("shared    {} tensors feed several leaves and are read once for each",
                           plan.totals.shared_tensors));
  }
  print_line(fmt::format("output    {}{} in {} data files, {} chunks, {} leaves",
                         plan.is_packed() ? "at most " : "", human_bytes(plan.totals.output_bytes),
                         plan.file_count(), plan.totals.chunks, plan.model.leaves.size()));
  if (plan.options.link) print_links(plan);
  print_line(
      fmt::format("memory    at most {}, {} would do ({} for the plan itself)",
                  human_bytes(budget.control_bytes + budget.fixed_bytes + budget.arena_bytes),
                  human_bytes(budget.need_bytes), human_bytes(budget.control_bytes)));
  for (std::size_t i = 0; i < std::min(plan.model.leaves.size(), kShownLeaves); ++i) {
    const Leaf& leaf = plan.model.leaves[i];
    const Grid& grid = plan.grids[i];
    print_line(fmt::format("  {} {} {} axes [{}] shard {} chunk {} x {}", leaf.path,
                           to_string(leaf.dtype), list(leaf.shape), join(leaf.axes, ", "),
                           list(grid.shard), list(grid.chunk),
                           chunk_counts(leaf.shape, grid.chunk).numel()));
  }
  if (plan.model.leaves.size() > kShownLeaves) {
    print_line(fmt::format("  ... and {} more leaves (--json lists all)",
                           plan.model.leaves.size() - kShownLeaves));
  }
}

void print_notes(const Session& session, const Plan& plan) {
  for (const std::string& note : plan.catalog.notes) print_note(session, "note: " + note);
  for (const std::string& note : plan.model.notes) print_note(session, "note: " + note);
  std::map<std::string, std::vector<std::string>> drops;
  for (const Drop& drop : plan.model.drops)
    drops[drop.why].push_back(plan.catalog.tensors[drop.source].name);
  for (const auto& [why, names] : drops) {
    const std::string rest = names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : "";
    print_note(session,
               fmt::format("note: not converted: {}{}: {}", quote(names.front()), rest, why));
  }
}

std::string next_command(const Plan& plan, const std::string& items) {
  if (plan.model.scheme != "maxtext") return fmt::format("hfshard inspect {}", items);
  std::string text = fmt::format("load_parameters_path={} scan_layers={}", items,
                                 plan.model.stacked ? "true" : "false");
  if (!plan.model.model_names.empty()) text += " model_name=" + join(plan.model.model_names, "|");
  return text;
}

}  // namespace hfshard
