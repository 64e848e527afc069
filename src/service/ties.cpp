#include "service/ties.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/table.h"
#include "ops/index_map.h"
#include "ops/value.h"
#include "plan/compile/steps.h"
#include "service/complete.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the array that alone stores a tensor of the model.
std::optional<std::uint32_t> array_of(const CompiledModel& model, const std::string& name) {
  const auto leaf = std::ranges::lower_bound(model.leaves, name, {}, &Leaf::name);
  if (leaf == model.leaves.end() || leaf->name != name) return std::nullopt;
  const auto number = static_cast<std::uint32_t>(leaf - model.leaves.begin());
  const auto is_part = [&](const auto& item) { return item.target == number; };
  const auto first = std::ranges::find_if(model.transfers, is_part);
  if (first == model.transfers.end() || std::ranges::any_of(model.fills, is_part))
    return std::nullopt;
  const bool plain =
      std::none_of(first + 1, model.transfers.end(), is_part) && is_one_array(*first, leaf->shape);
  return plain ? std::optional(first->sources.front()) : std::nullopt;
}

// Adds a claim that two arrays of the tree are equal.
void add_tie(const Catalog& tree, std::uint32_t copy, std::uint32_t twin, const std::string& rule,
             CompiledModel& claims) {
  const TensorInfo& held = tree.tensors[copy];
  const TensorInfo& source = tree.tensors[twin];
  const bool comparable =
      held.shape == source.shape &&
      (held.dtype == source.dtype || can_apply_value({}, source.dtype, held.dtype));
  if (!comparable) return;
  Leaf leaf;
  static_cast<Array&>(leaf) = held;
  Transfer same;
  same.target = static_cast<std::uint32_t>(claims.leaves.size());
  same.rule = static_cast<std::uint32_t>(claims.rules.size());
  same.sources = {twin};
  same.source_shape = source.shape;
  same.source_dtype = source.dtype;
  same.map = identity_map(source.shape);
  same.copy = true;
  claims.rules.push_back(rule);
  claims.leaves.push_back(std::move(leaf));
  claims.transfers.push_back(std::move(same));
}

// Resolves the model in the first scheme that has it.
std::optional<ResolvedModel> resolve_any(const MappingTable& table, Bindings& bindings) {
  for (const Scheme& scheme : table.schemes) {
    for (const bool stacked : {false, true}) {
      try {
        return resolve(scheme, bindings, stacked);
      } catch (const Error& error) {  // the scheme doesn't have this model
        if (error.code() == ErrorCode::internal) throw;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

void claim_ties(const Catalog& tree, const std::string& config_text, const std::string& config_name,
                const MappingOptions& mapping, CompiledModel& model) {
  if (model.claims || config_text.empty()) return;
  const Json config = parse_json(config_text, config_name);
  const auto family = find_family(config, mapping.files);
  if (!family) return;
  const MappingTable table = load_table(*family);
  const Bindings::Options none;
  Bindings bindings(table, config, none, shapes_of(tree));
  const auto resolved = resolve_any(table, bindings);
  if (!resolved) return;
  CompiledModel claims;
  for (const ResolvedDrop& drop : resolved->drops) {
    for (std::size_t i = 0; i < drop.same_as.size(); ++i) {
      const auto copy = array_of(model, drop.sources[i]);
      const auto twin = array_of(model, drop.same_as[i]);
      if (!copy || !twin || accepted_loss(mapping, tree.tensors[*copy].name) != nullptr) continue;
      add_tie(tree, *copy, *twin, drop.rule->pointer, claims);
    }
  }
  if (!claims.leaves.empty()) model.claims = std::make_shared<const CompiledModel>(claims);
}

namespace {

// Returns the tensors that a model's rules drop as copies of others, whether they are there or not.
// `names` are sorted.
std::vector<SharedName> twins_of(const std::vector<std::string_view>& names,
                                 const std::string& config_text, const MappingOptions& mapping) {
  std::vector<SharedName> out;
  if (config_text.empty()) return out;
  const Json config = parse_json(config_text, "config.json");
  const auto family = find_family(config, mapping.files);
  if (!family) return out;
  const MappingTable table = load_table(*family);
  const Bindings::Options none;
  // Rules ask which names exist.
  const auto shape_of = [&](std::string_view name) {
    return std::ranges::binary_search(names, name) ? std::optional(Shape{}) : std::nullopt;
  };
  Bindings bindings(table, config, none, shape_of);
  const auto resolved = resolve_any(table, bindings);
  if (!resolved) return out;
  for (const ResolvedDrop& drop : resolved->drops) {
    for (std::size_t i = 0; i < drop.same_as.size(); ++i)
      out.push_back({drop.same_as[i], drop.sources[i]});
  }
  return out;
}

}  // namespace

std::vector<SharedName> missing_twins(const std::vector<std::string>& names,
                                      const std::string& config_text,
                                      const MappingOptions& mapping) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  std::vector<SharedName> out = twins_of(sorted, config_text, mapping);
  std::erase_if(out, [&](const SharedName& twin) {
    return !std::ranges::binary_search(sorted, twin.stored) ||
           std::ranges::binary_search(sorted, twin.name);
  });
  return out;
}

namespace {

// Returns the head of a model whose rules never expect one, if the source has only the embedding.
std::optional<std::string> absent_head(const Catalog& source, const MappingOptions& mapping) {
  std::vector<std::string_view> names;
  for (const TensorInfo& info : source.tensors) names.push_back(info.name);
  std::optional<std::string> out;
  for (const SharedName& twin : twins_of(names, source.config_text, mapping)) {
    if (std::ranges::binary_search(names, twin.stored)) return std::nullopt;
    if (!out && std::ranges::binary_search(names, twin.name)) out = twin.stored;
  }
  return out;
}

}  // namespace

void check_head(const Catalog& source, const Catalog& untied, MappingOptions mapping) {
  mapping.num_layers.reset();  // the head doesn't belong to a layer
  const auto lacks = [&](const Catalog& files) -> std::optional<std::string> {
    try {
      check_complete(files, mapping);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::not_found) return error.tensor();
      throw;
    }
    return std::nullopt;
  };
  auto head = lacks(untied);
  if (head && lacks(source)) return;
  if (!head) head = absent_head(source, mapping);
  if (!head) return;
  throw Error(ErrorCode::usage, "--untie needs an output head, and the source doesn't store one")
      .in_file(source.location)
      .in_tensor(*head)
      .hint("leave out --untie; the embedding is also the head");
}

}  // namespace hfshard
