#include "plan/layout/mesh.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/text.h"
#include "base/typed.h"

#include "hfshard/error.h"

namespace hfshard {

std::uint64_t Mesh::size_of(std::string_view name) const noexcept {
  for (const Axis& axis : axes) {
    if (axis.name == name) return axis.size;
  }
  return 1;
}

std::vector<std::string> AxisRules::mesh_axes() const {
  std::set<std::string> names;
  for (const Rule& rule : rules) names.insert(rule.mesh_axes.begin(), rule.mesh_axes.end());
  return {names.begin(), names.end()};
}

AxisRules parse_axis_rules(std::string_view text, std::string_view name) {
  AxisRules out;
  const Json document = parse_json(text, name);
  std::size_t index = 0;
  try {
    for (const Json& entry : document.as_array()) {
      const Json::Array& pair = entry.as_array();
      if (pair.size() != 2) throw Error(ErrorCode::bad_input, "an axis rule must be a pair");
      AxisRules::Rule rule;
      rule.logical = pair[0].as_string();
      for (const Json& axis : pair[1].as_array()) rule.mesh_axes.push_back(axis.as_string());
      out.rules.push_back(std::move(rule));
      ++index;
    }
  } catch (Error& error) {  // the JSON accessors don't know the entry
    throw error.in_file(name).by_rule(fmt::format("{}#/{}", name, index));
  }
  return out;
}

void add_mesh_rules(const std::vector<Leaf>& leaves, AxisRules& rules) {
  std::set<std::string> names;
  for (const Leaf& leaf : leaves) names.insert(leaf.axes.begin(), leaf.axes.end());
  for (const std::string& name : names) {
    if (std::vector<std::string> axes = mesh_axes_of(name); !axes.empty())
      rules.rules.push_back({name, std::move(axes)});
  }
}

void add_mesh_axes(const std::vector<std::string>& axes, AxisRules& rules) {
  for (const std::string& axis : axes) rules.rules.push_back({"", {axis}});
}

namespace {

Mesh::Axis parse_mesh_axis(const std::string& part, std::string_view whole,
                           const std::vector<std::string>& known) {
  if (known.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("the axis rules have no mesh axes, so {} is no mesh", quote(whole)))
        .hint(R"(name mesh axes in the file of --rules, such as ["embed", ["fsdp"]])");
  }
  const std::size_t equals = part.find('=');
  Mesh::Axis axis;
  axis.name = part.substr(0, equals);
  if (equals == std::string::npos && !std::ranges::binary_search(known, axis.name)) {
    throw Error(ErrorCode::usage, fmt::format("a mesh needs axes with sizes, not {}", quote(whole)))
        .hint("pass axes such as fsdp=8,tensor=4; the axes are " + join(known, ", "));
  }
  if (!std::ranges::binary_search(known, axis.name)) {
    throw Error(ErrorCode::usage, fmt::format("unknown mesh axis {}", quote(axis.name)))
        .hint(name_hint(axis.name, known));
  }
  const std::string digits = equals == std::string::npos ? "" : part.substr(equals + 1);
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), axis.size);
  if (status != std::errc() || end != digits.data() + digits.size() || axis.size == 0) {
    throw Error(ErrorCode::usage,
                fmt::format("mesh axis {} needs a whole number of at least 1", quote(part)))
        .hint(fmt::format("pass {}=16, not {}", axis.name, quote(part)));
  }
  return axis;
}

}  // namespace

Mesh parse_mesh(std::string_view text, const AxisRules& rules) {
  Mesh mesh;
  const std::vector<std::string> known = rules.mesh_axes();
  for (const std::string& part : split(text, ',')) {
    Mesh::Axis axis = parse_mesh_axis(part, text, known);
    for (const Mesh::Axis& other : mesh.axes) {
      if (other.name == axis.name) {
        throw Error(ErrorCode::usage,
                    fmt::format("mesh axis {} appears twice in {}", quote(axis.name), quote(text)))
            .hint("name each axis once; for several meshes, repeat --mesh");
      }
    }
    mesh.axes.push_back(std::move(axis));
  }
  return mesh;
}

std::string to_string(const Mesh& mesh) {
  std::vector<std::string> parts;
  parts.reserve(mesh.axes.size());
  for (const Mesh::Axis& axis : mesh.axes)
    parts.push_back(fmt::format("{}={}", axis.name, axis.size));
  return join(parts, ",");
}

std::vector<std::vector<std::string>> logical_to_mesh_axes(const std::vector<std::string>& axes,
                                                           const AxisRules& rules) {
  std::vector<std::vector<std::string>> out(axes.size());
  std::vector<bool> set(axes.size(), false);
  std::vector<const std::vector<std::string>*> used;
  for (const AxisRules::Rule& rule : rules.rules) {
    const auto at = std::ranges::find(axes, rule.logical);
    if (rule.logical.empty() || at == axes.end()) continue;
    const auto dim = static_cast<std::size_t>(at - axes.begin());
    if (set[dim]) continue;
    const auto in_use = [&](const std::string& name) {
      return std::ranges::any_of(
          used, [&](const auto* list) { return std::ranges::find(*list, name) != list->end(); });
    };
    if (std::ranges::any_of(rule.mesh_axes, in_use)) continue;
    set[dim] = true;
    out[dim] = rule.mesh_axes;
    used.push_back(&rule.mesh_axes);
  }
  return out;
}

Shape shard_counts(const Leaf& leaf, const AxisRules& rules, const Mesh& mesh, bool uneven) {
  Shape counts;
  const auto spec = logical_to_mesh_axes(leaf.axes, rules);
  for (std::size_t d = 0; d < leaf.shape.rank(); ++d) {
    std::optional<std::uint64_t> count = 1;
    if (d >= spec.size()) {
      counts.push_back(1);
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& axis : spec[d]) {
      const std::uint64_t size = mesh.size_of(axis);
      if (size > 1) names.push_back(fmt::format("{}={}", axis, size));
      if (count) count = checked_mul(*count, size);
    }
    if (!count || (!uneven && leaf.shape[d] % *count != 0)) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("dimension {} ({}) of {} is {}, which {} doesn't divide", d,
                              leaf.axes[d], to_string(leaf.shape), leaf.shape[d], join(names, ",")))
          .in_tensor(leaf.name)
          .hint("pass a mesh whose sizes divide every dimension; loaders also refuse this mesh");
    }
    counts.push_back(*count);
  }
  return counts;
}

Mesh default_mesh(const std::vector<Leaf>& leaves, const AxisRules& rules) {
  std::uint64_t size = 16;
  bool splits = false;
  for (const Leaf& leaf : leaves) {
    const auto spec = logical_to_mesh_axes(leaf.axes, rules);
    for (std::size_t d = 0; d < spec.size(); ++d) {
      if (std::ranges::find(spec[d], "fsdp") == spec[d].end()) continue;
      splits = true;
      while (leaf.shape[d] % size != 0) size /= 2;
    }
  }
  Mesh mesh;
  if (splits && size > 1) mesh.axes.push_back({"fsdp", size});
  return mesh;
}

}  // namespace hfshard
