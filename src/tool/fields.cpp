#include "tool/fields.h"

#include <algorithm>
#include <unistd.h>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/help.h"
#include "tool/progress.h"
#include "tool/text_table.h"

namespace hfshard {

std::vector<std::string> field_lines(const Field& field, std::size_t columns) {
  constexpr std::size_t kLabel = 10;
  std::vector<std::string> out;
  for (const std::string& line :
       wrapped(printable(field.text), columns - std::min(columns, kLabel)))
    out.push_back(fmt::format("{:<{}}{}", out.empty() ? field.label : "", kLabel, line));
  return out;
}

void print_field(const Field& field) {
  for (const std::string& line : field_lines(field, terminal_columns(STDOUT_FILENO)))
    print_line(line);
}

void print_field(std::string_view label, const std::string& text) {
  print_field({std::string(label), text});
}

// `14022`, `752 M`, `671 B`.
std::string human_count(std::uint64_t count) {
  constexpr double kThousand = 1000;
  if (count < 1000000) return std::to_string(count);
  double value = static_cast<double>(count) / (kThousand * kThousand);
  std::string_view unit = "M";
  for (const std::string_view next : {"B", "T"}) {
    if (value < kThousand - 0.5) break;
    value /= kThousand;
    unit = next;
  }
  return fmt::format("{} {}", three_digits(value), unit);
}

namespace {

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
  out["refused"] = Json::Array{};
  for (const std::string& leaf : load.refused) out["refused"].array().emplace_back(leaf);
  return out;
}

}  // namespace

Json loads_json(const std::vector<LoadReport>& loads) {
  Json out = Json::Array{};
  for (const LoadReport& load : loads) out.array().push_back(load_json(load));
  return out;
}

std::vector<Field> load_fields(const LoadReport& load) {
  HostRead most;
  for (const HostRead& host : load.hosts) {
    most.needed_bytes = std::max(most.needed_bytes, host.needed_bytes);
    most.read_bytes = std::max(most.read_bytes, host.read_bytes);
    most.requests = std::max(most.requests, host.requests);
  }
  const double needed = static_cast<double>(std::max<std::uint64_t>(load.needed_bytes, 1));
  const bool alone = load.hosts.size() == 1;
  const std::string who = alone ? "1 host" : fmt::format("each of {} hosts", load.hosts.size());
  const std::string_view at_most = alone ? "" : "up to ";
  std::vector<Field> out;
  out.push_back(
      {"load", fmt::format("on {}: {} needs {}{} and reads {}{} in {} ({:.2f}x)",
                           load.mesh.empty() ? "one device" : load.mesh, who, at_most,
                           human_bytes(most.needed_bytes), at_most, human_bytes(most.read_bytes),
                           counted(most.requests, "request"),
                           static_cast<double>(load.read_bytes) / needed)});
  if (load.refused.empty()) return out;
  out.push_back(
      {"warning", fmt::format("Orbax's byte limiter refuses {} there, first {}: requests take up "
                              "to {}; pass this mesh to --mesh, or raise restore_concurrent_gb "
                              "above it",
                              counted(load.refused.size(), "leaf", "leaves"), load.refused.front(),
                              human_bytes(load.largest_request_bytes))});
  return out;
}

void add_range(const std::optional<ByteRange>& range, Json& out) {
  if (!range) return;
  out["begin_bytes"] = range->begin;
  out["end_bytes"] = range->end;
}

}  // namespace hfshard
