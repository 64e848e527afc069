#include "mapping/resolve/first_layers.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/expand.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The config keys about layers, from common.json.
struct DepthKeys {
  std::string dim;
  std::string count;
  std::vector<std::string> lists;
  std::vector<std::string> indices;
  std::vector<std::string> first;
  std::vector<std::string> last;
};

const DepthKeys& depth_keys() {
  static const DepthKeys kKeys = [] {
    const JsonAt depth = JsonAt(common_mappings(), "mappings/common.json#").at("depth");
    depth.check_keys(Block::depth);
    return DepthKeys{depth.at("dim").text(),    depth.at("count").text(),
                     depth.at("lists").texts(), depth.at("indices").texts(),
                     depth.at("first").texts(), depth.at("last").texts()};
  }();
  return kKeys;
}

// Returns the object at a place of config_at, or nullptr.
Json* object_at(Json& config, const std::string& place) {
  Json* at = &config;
  if (place != ".") {
    for (const std::string& key : split(place, '.')) {
      if (at->find(key) == nullptr) return nullptr;
      at = &(*at)[key];
    }
  }
  return at->is_object() ? at : nullptr;
}

// Returns the value of a key, or nullptr if it is missing or null.
Json* member(Json& at, const std::string& key) {
  const Json* found = at.find(key);
  return found == nullptr || found->is_null() ? nullptr : &at[key];
}

// Shortens a list with an entry for each layer, or an object whose keys are layer numbers.
void cut_list(Json& list, std::uint64_t layers) {
  if (list.is_array() && list.as_array().size() > layers)
    list.array().resize(static_cast<std::size_t>(layers));
  if (!list.is_object()) return;
  std::erase_if(list.object(), [&](const auto& entry) {
    const std::string& key = entry.first;
    std::uint64_t layer = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), layer);
    return read.ec == std::errc{} && read.ptr == key.data() + key.size() && layer >= layers;
  });
}

void cut_indices(Json& list, std::int64_t layers) {
  if (!list.is_array()) return;
  std::erase_if(list.array(),
                [&](const Json& layer) { return layer.is_integer() && layer.as_int() >= layers; });
}

void cut_object(Json& at, std::int64_t whole, std::int64_t layers) {
  const DepthKeys& keys = depth_keys();
  if (Json* count = member(at, keys.count)) *count = Json(layers);
  for (const std::string& key : keys.lists) {
    if (Json* list = member(at, key)) cut_list(*list, static_cast<std::uint64_t>(layers));
  }
  for (const std::string& key : keys.indices) {
    if (Json* list = member(at, key)) cut_indices(*list, layers);
  }
  for (const std::string& key : keys.first) {
    Json* number = member(at, key);
    if (number != nullptr && number->is_integer())
      *number = Json(std::min(number->as_int(), layers));
  }
  for (const std::string& key : keys.last) {
    Json* number = member(at, key);
    if (number == nullptr || !number->is_integer()) continue;
    const std::int64_t before = whole - std::min(number->as_int(), whole);
    *number = Json(std::max<std::int64_t>(layers - before, 0));
  }
}

}  // namespace

Json config_of_first_layers(const MappingTable& table, const Json& config, std::uint64_t whole,
                            std::uint64_t layers) {
  const std::string& count = depth_keys().count;
  Json out = config;
  Json* first = nullptr;
  bool counted = false;
  for (const std::string& place : table.config_at) {
    Json* at = object_at(out, place);
    if (at == nullptr) continue;
    if (first == nullptr) first = at;
    cut_object(*at, static_cast<std::int64_t>(whole), static_cast<std::int64_t>(layers));
    counted = counted || member(*at, count) != nullptr;
  }
  // If no place had the number, it was a default of the model's code.
  if (!counted && first != nullptr) (*first)[count] = layers;
  return out;
}

ModelRules::ModelRules(const MappingTable& table, const Scheme& scheme, const Json& config,
                       const MappingOptions& options, const Bindings::ShapeOf& shape_of)
    : table_(table),
      scheme_(scheme),
      config_(config),
      options_(options),
      shape_of_(shape_of),
      all_(table, config, options.options, shape_of) {
  if (options.num_layers) take_first(*options.num_layers);
  if (!is_cut()) resolved_ = resolve(scheme, all_, options.stacked);
}

std::uint64_t ModelRules::count_layers(const Bindings& bindings) const {
  const std::string& dim = depth_keys().dim;
  if (table_.dims.contains(dim)) return bindings.extent(dim);
  throw Error(ErrorCode::unsupported,
              fmt::format("--num-layers can't count the layers of family {}", quote(table_.family)))
      .in_file(table_.path)
      .hint(fmt::format("they are counted by its dim {}", quote(dim)));
}

Json ModelRules::config_of(std::uint64_t layers) const {
  return layers == whole_ ? config_ : config_of_first_layers(table_, config_, whole_, layers);
}

void ModelRules::take_first(std::uint64_t layers) {
  whole_ = count_layers(all_);
  if (layers == 0) throw Error(ErrorCode::usage, "pass --num-layers 1 or more");
  if (layers > whole_) {
    throw Error(ErrorCode::usage,
                fmt::format("--num-layers {} is more than the {} layers that the model has", layers,
                            whole_));
  }
  if (layers == whole_) return;
  cut_config_ = config_of(layers);
  cut_.emplace(table_, cut_config_, options_.options, shape_of_, &config_);
  if (count_layers(*cut_) != layers) {
    throw Error(ErrorCode::unsupported, fmt::format("{1} doesn't count the layers of family {0}",
                                                    quote(table_.family), depth_keys().count))
        .by_rule(table_.dims.at(depth_keys().dim).pointer());
  }
  try {
    resolved_ = resolve(scheme_, *cut_, options_.stacked);
  } catch (const Error& error) {  // for any number of layers, or this one
    refuse(layers, error);
  }
}

bool ModelRules::fits(std::uint64_t layers, bool stacked) const {
  const Json config = config_of(layers);
  Bindings bindings(table_, config, options_.options, shape_of_, &config_);
  try {
    resolve(scheme_, bindings, stacked);
    return true;
  } catch (const Error&) {  // an error is a result here
    return false;
  }
}

void ModelRules::refuse(std::uint64_t layers, const Error& reason) {
  std::uint64_t below = layers - 1;
  while (below > 0 && !fits(below, options_.stacked)) --below;
  std::uint64_t above = layers + 1;
  while (above <= whole_ && !fits(above, options_.stacked)) ++above;
  std::vector<std::string> near;
  if (below > 0) near.push_back(std::to_string(below));
  if (above <= whole_) near.push_back(std::to_string(above));
  if (near.empty()) {
    resolve(scheme_, all_, options_.stacked);  // throws if no number works
    throw reason;
  }
  std::string hint = fmt::format("pass --num-layers {}", join(near, " or "));
  if (options_.stacked && fits(layers, false))
    hint += fmt::format(", or {} with --layers separate", layers);
  // Users don't know a table's expressions, and have the hint.
  const bool says_why = !reason.sentence().starts_with("expression ");
  throw Error(ErrorCode::usage,
              fmt::format("--num-layers {} doesn't fit the pattern of the {} layers{}", layers,
                          whole_, says_why ? ": " + reason.sentence() : ""))
      .by_rule(reason.rule())
      .hint(hint);
}

std::vector<std::string> ModelRules::left_out() {
  if (!is_cut()) return {};
  std::vector<std::string> out;
  const std::vector<std::string> taken = layer_prefixes(scheme_, *cut_);
  std::ranges::set_difference(layer_prefixes(scheme_, all_), taken, std::back_inserter(out));
  return out;
}

std::string ModelRules::why_left_out() const {
  const std::uint64_t taken = options_.num_layers.value_or(whole_);
  return taken + 1 == whole_ ? fmt::format("layer {} is left out (--num-layers {})", taken, taken)
                             : fmt::format("layers {} to {} are left out (--num-layers {})", taken,
                                           whole_ - 1, taken);
}

}  // namespace hfshard
