#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::size_t kNamedTensors = 3;

std::string braced(const Shape& shape) { return "(" + to_string(shape) + ")"; }

// What an axis of `actual` elements says about one of its dims: the innermost that the others
// divide.
struct AxisFault {
  std::string dim;
  std::uint64_t here = 0;
  std::uint64_t there = 0;
};

AxisFault explain(const PatternNode& node, std::uint64_t expected, std::uint64_t actual,
                  const Bindings& bindings) {
  std::vector<std::string> dims;
  if (!node.offset) collect_dims(node, dims);
  for (std::size_t i = dims.size(); i-- > 0;) {
    const std::uint64_t extent = bindings.extent(dims[i]);
    if (extent == 0 || expected % extent != 0) continue;
    const std::uint64_t others = expected / extent;
    if (others != 0 && actual % others == 0) return {dims[i], extent, actual / others};
  }
  return {to_text(node), expected, actual};
}

// `model.layers.7.mlp` and `model.layers.{l}.mlp` as the same text.
std::string without_counters(std::string_view name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '{') {
      const std::size_t close = name.find('}', i);
      out += "{}";
      i = close == std::string_view::npos ? name.size() : close;
    } else if (std::isdigit(static_cast<unsigned char>(name[i])) != 0 &&
               (i == 0 || name[i - 1] == '.')) {
      out += "{}";
      while (i + 1 < name.size() && std::isdigit(static_cast<unsigned char>(name[i + 1])) != 0) ++i;
    } else {
      out += name[i];
    }
  }
  return out;
}

// Source names of all rules, with their loops.
std::vector<std::string> written_names(const Scheme& scheme, const Bindings& bindings) {
  std::vector<std::string> out;
  for (const Rule& rule : scheme.global) out.push_back(rule.source.shown(bindings));
  for (const LayerGroup& group : scheme.groups) {
    for (const Rule& rule : group.rules)
      out.push_back(group.hf.shown(bindings) + rule.source.shown(bindings));
  }
  return out;
}

std::vector<std::string> nearest_rules(const Scheme& scheme, const Bindings& bindings,
                                       std::string_view tensor) {
  const std::vector<std::string> written = written_names(scheme, bindings);
  std::vector<std::string> plain;
  plain.reserve(written.size());
  for (const std::string& name : written) plain.push_back(without_counters(name));
  std::vector<std::string> out;
  for (const std::string& near : near_names(without_counters(tensor), plain, 2)) {
    const auto found = std::ranges::find(plain, near);
    if (found == plain.end()) continue;
    const std::string& name = written[static_cast<std::size_t>(found - plain.begin())];
    if (std::ranges::find(out, quote(name)) == out.end()) out.push_back(quote(name));
  }
  return out;
}

[[noreturn]] void fail_unmatched(const MappingTable& table, const Scheme& scheme,
                                 const Bindings& bindings,
                                 const std::vector<std::string>& unmatched,
                                 const std::vector<MissingTensor>& missing) {
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(kNamedTensors, unmatched.size()); ++i) {
    named.push_back(quote(unmatched[i]));
  }
  std::string hint;
  const std::vector<std::string> near = nearest_rules(scheme, bindings, unmatched.front());
  if (!near.empty()) hint = "nearest rules are for " + join(near, " and ") + "; ";
  if (!missing.empty()) {
    hint += fmt::format("{} tensors that the rules need are missing, first {}; ", missing.size(),
                        quote(missing.front().name));
  }
  hint += "--exclude leaves tensors out, --scheme hf keeps names and shapes";
  Error error(ErrorCode::bad_input,
              fmt::format("{} tensor{} no rule of family {}: {}{}", unmatched.size(),
                          unmatched.size() == 1 ? " matches" : "s match", quote(table.family),
                          join(named, ", "), unmatched.size() > kNamedTensors ? ", ..." : ""));
  throw error.in_tensor(unmatched.front()).hint(hint);
}

}  // namespace

void check_shape(const Catalog& catalog, const TensorInfo& tensor, const Pattern& pattern,
                 const Shape& expected, const Bindings& bindings, std::string_view pointer) {
  if (tensor.shape == expected) return;
  const auto fail = [&](const std::string& sentence) {
    throw Error(ErrorCode::bad_input, sentence)
        .in_file(catalog.file_name(tensor))
        .in_tensor(tensor.name)
        .by_rule(pointer)
        .hint("config.json and the tensors do not belong together, or the family is another one");
  };
  if (tensor.shape.rank() != expected.rank()) {
    fail(fmt::format("pattern {} has {} axes here, {} in {} {}", quote(pattern.text),
                     expected.rank(), tensor.shape.rank(), quote(tensor.name),
                     braced(tensor.shape)));
  }
  for (std::size_t axis = 0; axis < expected.rank(); ++axis) {
    if (tensor.shape[axis] == expected[axis]) continue;
    const AxisFault fault =
        explain(pattern.axes[axis], expected[axis], tensor.shape[axis], bindings);
    fail(fmt::format("axis {} is {} here, {} in {} {}", quote(fault.dim), fault.here, fault.there,
                     quote(tensor.name), braced(tensor.shape)));
  }
}

void check_all_used(const MappingTable& table, const Scheme& scheme, const Bindings& bindings,
                    const ModelBuilder& builder, const std::vector<MissingTensor>& missing) {
  std::vector<std::string> unmatched;
  const Catalog& catalog = builder.catalog();
  for (std::uint32_t i = 0; scheme.rest.empty() && i < catalog.tensors.size(); ++i) {
    if (builder.use(i) == TensorUse::none) unmatched.push_back(catalog.tensors[i].name);
  }
  if (!unmatched.empty()) fail_unmatched(table, scheme, bindings, unmatched, missing);
  if (missing.empty()) return;
  throw Error(ErrorCode::not_found,
              missing.size() == 1
                  ? std::string("the source lacks a tensor that a rule needs")
                  : fmt::format("the source lacks {} tensors that rules need", missing.size()))
      .in_tensor(missing.front().name)
      .by_rule(missing.front().rule)
      .hint(catalog.files.empty()
                ? "this checkpoint was made without it: convert the model itself, or make it again "
                  "with it"
                : "config.json asks for it; is the download complete?");
}

}  // namespace hfshard
