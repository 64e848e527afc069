#include "service/config_sizes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/config_keys.h"
#include "mapping/tables/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kVocabulary = "vocab_size";
constexpr const char* kTextPart = "text_config";
constexpr const char* kOption = "vocab";

const Leaf* first_other(const Catalog& tree, const CompiledModel& model) {
  const auto other = std::ranges::find_if(model.leaves, [&](const Leaf& leaf) {
    const auto array = tree.find(leaf.name);
    return array && !(tree.tensors[*array].shape == leaf.shape);
  });
  return other == model.leaves.end() ? nullptr : &*other;
}

// Returns the object in a config that states a key, or null.
Json* object_with(Json& config, const std::string& key) {
  if (config.find(key) != nullptr) return &config;
  Json* text =
      config.is_object() && config.find(kTextPart) != nullptr ? &config[kTextPart] : nullptr;
  return text != nullptr && text->is_object() && text->find(key) != nullptr ? text : nullptr;
}

bool has_sizes(const Catalog& tree, const std::string& config_text, const std::string& config_name,
               const MappingOptions& mapping) {
  try {
    const Described described = describe_model(tree, config_text, config_name, mapping);
    return first_other(tree, described.model) == nullptr;
  } catch (const Error& error) {  // no scheme has this model
    if (error.code() == ErrorCode::internal) throw;
    return false;
  }
}

// Throws: bad_input, if a tree has all sizes of a model but the vocabulary's.
void check_vocabulary(const Catalog& tree, const Leaf* other, const Shape& stored,
                      const std::string& config_text, const std::string& config_name,
                      const MappingOptions& mapping) {
  Json config = parse_json(config_text, config_name);
  Json* at = object_with(config, kVocabulary);
  if (at == nullptr) return;
  for (std::size_t axis = 0; axis < stored.rank(); ++axis) {
    const std::uint64_t rows = stored[axis];
    const std::uint64_t expected = other->shape[axis];
    if (rows == expected) continue;
    MappingOptions resized = mapping;
    resized.options.erase(kOption);
    (*at)[kVocabulary] = rows;
    if (!has_sizes(tree, dump_json(config), config_name, resized)) continue;
    resized.options[kOption] = std::to_string(rows);
    const bool padded = rows > expected && has_sizes(tree, config_text, config_name, resized);
    const std::string edit = fmt::format("set \"{}\": {} in config.json", kVocabulary, rows);
    throw Error(
        ErrorCode::bad_input,
        fmt::format("the checkpoint's vocabulary is {}: it has {} rows, and {} says {}",
                    rows > expected ? "larger" : "smaller", rows,
                    mapping.options.contains(kOption) ? "--vocab" : "vocab_size of config.json",
                    expected))
        .in_file(config_name)
        .in_tensor(other->name)
        .hint(padded ? fmt::format("if the last rows are padding, pass --vocab {}; if tokens were "
                                   "added, {}",
                                   rows, edit)
                     : edit);
  }
}

// Returns the keys of config.json that the sizes of a family's tensors depend on.
std::set<std::string> keys_of_sizes(const Json& config, const MappingOptions& mapping) {
  std::set<std::string> out;
  const auto family = find_family(config, mapping.files);
  if (!family) return out;
  const MappingTable table = load_table(*family);
  for (const auto& [dim, extent] : table.dims)
    for (std::string& key : inputs_of(table, dim).keys) out.insert(std::move(key));
  return out;
}

// Returns numbers in place of `value`, which isn't 0, that can turn an axis of `expected` elements
// into one of `stored`, the likeliest first. An axis can have a multiple, a fraction or a part of
// the number.
std::vector<std::uint64_t> numbers_for(std::uint64_t value, std::uint64_t expected,
                                       std::uint64_t stored) {
  std::vector<std::uint64_t> out;
  if (expected == 0) return out;
  if (expected % value == 0 && stored % (expected / value) == 0)
    out.push_back(stored / (expected / value));
  if (const auto whole = checked_mul(value / expected, stored); whole && value % expected == 0)
    out.push_back(*whole);
  if (const auto sum = checked_add(value - std::min(value, expected), stored);
      sum && value > expected)
    out.push_back(*sum);
  return out;
}

// Returns the changes of one key each that give a config's model the tree's sizes.
std::vector<std::string> edits_for(const Catalog& tree, const Shape& expected, const Shape& stored,
                                   Json config, const std::string& config_name,
                                   const MappingOptions& mapping) {
  const auto axis =
      static_cast<std::size_t>(std::ranges::mismatch(stored, expected).in1 - stored.begin());
  std::vector<std::string> out;
  for (const std::string& key : keys_of_sizes(config, mapping)) {
    Json* at = object_with(config, key);
    if (at == nullptr || !(*at)[key].is_integer()) continue;
    const Json before = (*at)[key];
    if (before.as_double() <= 0) continue;
    for (const std::uint64_t number : numbers_for(before.as_uint(), expected[axis], stored[axis])) {
      (*at)[key] = number;
      if (!has_sizes(tree, dump_json(config), config_name, mapping)) continue;
      out.push_back(fmt::format("\"{}\": {}", key, number));
      break;
    }
    (*at)[key] = before;
  }
  return out;
}

}  // namespace

void check_sizes(const Catalog& tree, const Described& described, const std::string& config_text,
                 const std::string& config_name, const MappingOptions& mapping) {
  const Leaf* other = first_other(tree, described.model);
  if (other == nullptr) return;
  const Shape& stored = tree.tensors[*tree.find(other->name)].shape;
  if (stored.rank() != other->shape.rank()) return;
  check_vocabulary(tree, other, stored, config_text, config_name, mapping);
  const std::vector<std::string> edits = edits_for(
      tree, other->shape, stored, parse_json(config_text, config_name), config_name, mapping);
  if (edits.empty()) return;
  throw Error(ErrorCode::bad_input,
              fmt::format("the {} has {}, and the model of config.json has {}", tree.wording.array,
                          to_string(stored), to_string(other->shape)))
      .in_file(config_name)
      .in_tensor(other->name)
      .hint(fmt::format("set {} in config.json", join(edits, " or ")));
}

}  // namespace hfshard
