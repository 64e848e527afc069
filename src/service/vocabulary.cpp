#include "service/vocabulary.h"

#include <algorithm>
#include <cstdint>
#include <optional>

#include <fmt/format.h>

#include "base/json.h"

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

// Returns the object in a config that states the vocabulary's row count.
Json* object_with_vocabulary(Json& config) {
  if (config.find(kVocabulary) != nullptr) return &config;
  Json* text =
      config.is_object() && config.find(kTextPart) != nullptr ? &config[kTextPart] : nullptr;
  return text != nullptr && text->is_object() && text->find(kVocabulary) != nullptr ? text
                                                                                    : nullptr;
}

bool fits(const Catalog& tree, const std::string& config_text, const std::string& config_name,
          const MappingOptions& mapping) {
  try {
    const Described described = describe_model(tree, config_text, config_name, mapping);
    return first_other(tree, described.model) == nullptr;
  } catch (const Error& error) {  // no scheme has this model
    if (error.code() == ErrorCode::internal) throw;
    return false;
  }
}

}  // namespace

void check_vocabulary(const Catalog& tree, const Described& described,
                      const std::string& config_text, const std::string& config_name,
                      const MappingOptions& mapping) {
  const Leaf* other = first_other(tree, described.model);
  if (other == nullptr) return;
  const Shape& stored = tree.tensors[*tree.find(other->name)].shape;
  if (stored.rank() != other->shape.rank()) return;
  Json config = parse_json(config_text, config_name);
  Json* at = object_with_vocabulary(config);
  if (at == nullptr) return;
  for (std::size_t axis = 0; axis < stored.rank(); ++axis) {
    const std::uint64_t rows = stored[axis];
    const std::uint64_t expected = other->shape[axis];
    if (rows == expected) continue;
    MappingOptions resized = mapping;
    resized.options.erase(kOption);
    (*at)[kVocabulary] = rows;
    if (!fits(tree, dump_json(config), config_name, resized)) continue;
    resized.options[kOption] = std::to_string(rows);
    const bool padded = rows > expected && fits(tree, config_text, config_name, resized);
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

}  // namespace hfshard
