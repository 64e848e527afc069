#include "tool/plan_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/json_shape.h"
#include "base/text.h"
#include "tool/cli.h"

namespace hfshard {
namespace {

Json json_list(const std::vector<std::string>& items) {
  Json out{Json::Array{}};
  for (const std::string& item : items) out.array().emplace_back(item);
  return out;
}

std::string list(const Shape& shape) {
  std::vector<std::string> parts;
  for (const std::uint64_t extent : shape) parts.push_back(std::to_string(extent));
  return "[" + join(parts, ", ") + "]";
}

std::string mesh_text(const PlanSummary& plan) {
  std::vector<std::string> parts;
  for (const std::string& mesh : plan.meshes) parts.push_back(mesh.empty() ? "one device" : mesh);
  return join(parts, " and ") + (plan.mesh_chosen ? " (chosen, pass --mesh to change)" : "");
}

Json load_json(const LoadReport& load) {
  Json out;
  out["mesh"] = load.mesh;
  out["hosts"] = std::uint64_t{load.hosts.size()};
  out["needed_bytes"] = load.needed_bytes;
  out["read_bytes"] = load.read_bytes;
  out["largest_request_bytes"] = load.largest_request_bytes;
  out["per_host"] = Json::Array{};
  for (const HostRead& host : load.hosts) {
    Json entry;
    entry["needed_bytes"] = host.needed_bytes;
    entry["read_bytes"] = host.read_bytes;
    entry["requests"] = host.requests;
    out["per_host"].array().push_back(std::move(entry));
  }
  out["refused"] = json_list(load.refused);
  return out;
}

void print_load(const LoadReport& load) {
  HostRead most;
  for (const HostRead& host : load.hosts) {
    most.needed_bytes = std::max(most.needed_bytes, host.needed_bytes);
    most.read_bytes = std::max(most.read_bytes, host.read_bytes);
    most.requests = std::max(most.requests, host.requests);
  }
  const double needed = static_cast<double>(std::max<std::uint64_t>(load.needed_bytes, 1));
  print_line(fmt::format(
      "load      on {}: a host of {} needs {}, reads {} in {} requests ({:.2f}x)", load.mesh,
      load.hosts.size(), human_bytes(most.needed_bytes), human_bytes(most.read_bytes),
      most.requests, static_cast<double>(load.read_bytes) / needed));
  if (load.refused.empty()) return;
  print_line(fmt::format(
      "warning   Orbax's byte limiter refuses {} leaves there, {} the first: a "
      "request of up to {}; use this mesh for --mesh, or set "
      "restore_concurrent_gb above it",
      load.refused.size(), load.refused.front(), human_bytes(load.largest_request_bytes)));
}

// What share is linked, and what is not, by reason.
void print_links(const PlanSummary& plan) {
  const auto all = static_cast<double>(plan.linked_bytes + plan.output_bytes);
  const double share = all > 0 ? 100.0 * static_cast<double>(plan.linked_bytes) / all : 0;
  print_line(fmt::format("linked    {:.1f}% of the bytes: {} in {} chunks of {} leaves", share,
                         human_bytes(plan.linked_bytes), plan.linked_chunks, plan.linked_leaves));
  std::map<std::string, std::vector<std::string>> reasons;
  for (const NotLinkedLeaf& item : plan.not_linked) reasons[item.why].push_back(item.path);
  for (const auto& [why, leaves] : reasons) {
    print_line(
        fmt::format("converted {} leaves, {} the first: {}", leaves.size(), leaves.front(), why));
  }
}

void print_leaves(const PlanReport& report) {
  for (const PlannedLeaf& leaf : report.leaves) {
    const bool named =
        std::ranges::any_of(leaf.axes, [](const auto& axis) { return !axis.empty(); });
    print_line(fmt::format("  {} {} {} axes [{}] shard {} chunk {} x {}", leaf.path,
                           to_string(leaf.dtype), list(leaf.shape),
                           named ? join(leaf.axes, ", ") : "", list(leaf.shard), list(leaf.chunk),
                           leaf.chunks));
  }
  if (report.summary.leaves > report.leaves.size()) {
    print_line(fmt::format("  ... and {} more leaves (--json lists all)",
                           report.summary.leaves - report.leaves.size()));
  }
}

void print_disk(const PlanReport& report) {
  if (!report.free_bytes) return;
  const char* lacking =
      report.summary.compresses ? "enough only if it compresses well" : "too little for convert";
  const bool fits = *report.free_bytes >= report.summary.output_bytes;
  print_line(fmt::format("disk      {} free, {}", human_bytes(*report.free_bytes),
                         fits ? "enough" : lacking));
}

// What was found out about the source, and what is made of it.
void add_facts(const PlanSummary& plan, Json& out) {
  out["family"] = plan.family;
  out["scheme"] = plan.scheme;
  out["layers"] = plan.stacked ? "stacked" : "separate";
  out["warnings"] = json_list(plan.warnings);
  out["notes"] = json_list(plan.notes);
  Json& drops = out["drops"] = Json::Array{};
  for (const DroppedTensors& drop : plan.drops) {
    Json entry;
    entry["why"] = drop.why;
    entry["tensors"] = json_list(drop.names);
    drops.array().push_back(std::move(entry));
  }
}

}  // namespace

void add_linked(const PlanSummary& plan, Json& out) {
  out["linked_bytes"] = plan.linked_bytes;
  out["linked_leaves"] = plan.linked_leaves;
  out["linked_chunks"] = plan.linked_chunks;
  Json& rest = out["not_linked"] = Json::Array{};
  for (const NotLinkedLeaf& item : plan.not_linked) {
    Json entry;
    entry["path"] = item.path;
    entry["why"] = item.why;
    rest.array().push_back(std::move(entry));
  }
}

Json outcome_json(const ConvertReport& report) {
  Json out;
  add_facts(report.plan, out);
  out["plan_id"] = report.plan.id;
  out["path"] = report.run.path;
  out["published"] = report.run.published || report.run.already_done;
  out["already_done"] = report.run.already_done;
  out["root_digest"] = report.run.root_digest;
  out["seconds"] = report.run.seconds;
  return out;
}

Json leaf_json(const PlannedLeaf& leaf) {
  Json out;
  out["path"] = leaf.path;
  out["shape"] = shape_json(leaf.shape);
  out["dtype"] = to_string(leaf.dtype);
  out["axes"] = Json::Array{};
  for (const std::string& axis : leaf.axes)
    out["axes"].array().push_back(axis.empty() ? Json() : Json(axis));
  out["shard"] = shape_json(leaf.shard);
  out["chunk"] = shape_json(leaf.chunk);
  if (leaf.inner) out["inner"] = shape_json(*leaf.inner);
  if (leaf.linked) out["linked"] = true;
  out["chunks"] = leaf.chunks;
  out["bytes"] = leaf.bytes;
  return out;
}

Json plan_json(const PlanReport& report) {
  const PlanSummary& plan = report.summary;
  Json out;
  add_facts(plan, out);
  out["plan_id"] = plan.id;
  out["identity"] = parse_json(plan.identity, "identity");
  out["meshes"] = json_list(plan.meshes);
  out["tensors"] = plan.tensors;
  out["dropped"] = plan.dropped;
  out["source_bytes"] = plan.source_bytes;
  out["shared_tensors"] = plan.shared_tensors;
  out["output_bytes"] = plan.output_bytes;
  out["files"] = plan.files;
  out["chunks"] = plan.chunks;
  out["units"] = plan.units;
  if (plan.links) add_linked(plan, out);
  out["largest_unit_bytes"] = plan.largest_unit_bytes;
  out["threads"] = std::uint64_t{report.memory.threads};
  out["kernel_threads"] = std::uint64_t{report.memory.kernel_threads};
  out["need_memory_bytes"] = report.memory.need_bytes;
  out["control_memory_bytes"] = report.memory.control_bytes;
  out["peak_memory_bytes"] = report.memory.peak_bytes;
  out["model_names"] = json_list(plan.model_names);
  out["disk"] = Json();
  if (report.free_bytes) {
    out["disk"]["free_bytes"] = *report.free_bytes;
    out["disk"]["fits"] = *report.free_bytes >= plan.output_bytes;
  }
  if (!report.loads.empty()) out["loads"] = Json::Array{};
  for (const LoadReport& load : report.loads) out["loads"].array().push_back(load_json(load));
  return out;
}

void print_plan(const PlanReport& report) {
  const PlanSummary& plan = report.summary;
  print_line(fmt::format("plan      {}", plan.id));
  print_line(fmt::format("family    {} ({}, {})", plan.family, plan.scheme,
                         plan.stacked ? "stacked" : "separate"));
  print_line(fmt::format("mesh      {}", mesh_text(plan)));
  print_line(fmt::format("source    {} tensors in {} files, {} read", plan.tensors,
                         plan.source_files, human_bytes(plan.source_bytes)));
  if (plan.shared_tensors > 0) {
    print_line(fmt::format("shared    {} tensors feed several leaves and are read once for each",
                           plan.shared_tensors));
  }
  print_line(fmt::format("output    {}{} in {} data files, {} chunks, {} leaves",
                         plan.compresses ? "at most " : "", human_bytes(plan.output_bytes),
                         plan.files, plan.chunks, plan.leaves));
  if (plan.links) print_links(plan);
  print_line(fmt::format("threads   {} for kernels, {} more for reads and writes",
                         report.memory.kernel_threads,
                         report.memory.threads - report.memory.kernel_threads));
  print_line(fmt::format("memory    at most {}, {} would do ({} for the plan itself)",
                         human_bytes(report.memory.peak_bytes),
                         human_bytes(report.memory.need_bytes),
                         human_bytes(report.memory.control_bytes)));
  print_leaves(report);
  for (const LoadReport& load : report.loads) print_load(load);
  print_disk(report);
}

std::vector<std::string> note_lines(const PlanSummary& plan) {
  std::vector<std::string> out;
  for (const std::string& warning : plan.warnings) out.push_back("warning: " + warning);
  for (const std::string& note : plan.notes) out.push_back("note: " + note);
  for (const DroppedTensors& drop : plan.drops) {
    const std::string rest =
        drop.names.size() > 1 ? fmt::format(" and {} more", drop.names.size() - 1) : "";
    out.push_back(
        fmt::format("note: not converted: {}{}: {}", quote(drop.names.front()), rest, drop.why));
  }
  return out;
}

std::string next_command(const PlanSummary& plan, const std::string& items) {
  if (plan.scheme != "maxtext") return fmt::format("hfshard inspect {}", items);
  std::string text =
      fmt::format("load_parameters_path={} scan_layers={}", items, plan.stacked ? "true" : "false");
  if (!plan.model_names.empty()) text += " model_name=" + join(plan.model_names, "|");
  return text;
}

}  // namespace hfshard
