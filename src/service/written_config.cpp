#include "service/written_config.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/tables/mtp_layers.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/steps.h"
#include "service/recorded_model.h"
#include "service/with_config.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kTied = "tie_word_embeddings";
constexpr const char* kTextConfig = "text_config";
constexpr const char* kQuantization = "quantization_config";

// Unties the object, and objects below it that state it or can have their own default.
void untie(Json& at, bool says) {
  for (auto& [key, value] : at.object()) {
    if (value.is_object()) untie(value, key == kTextConfig || value.find(kTied) != nullptr);
  }
  if (says) at[kTied] = false;
}

// Returns the config.json that is written with a model.
const std::string& text_of(const Catalog& source, const CompiledModel& model) {
  return model.config_text.empty() ? source.config_text : model.config_text;
}

constexpr std::array<const char*, 2> kDTypeKeys{"torch_dtype", "dtype"};

// Returns torch's name for a dtype.
std::optional<std::string> torch_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::f32:
      return "float32";
    case DType::f64:
      return "float64";
    default:
      return std::nullopt;
  }
}

// A part of a model with its own config: the prefix of its key, and the marks in its tensors'
// names. Source: huggingface/transformers src/transformers/models (sub_configs).
struct ModelPart {
  std::string_view key;
  std::array<std::string_view, 3> names;
};
constexpr std::array<ModelPart, 2> kModelParts{
    {{"vision", {"vision", "visual", "patch_embed"}}, {"audio", {"audio", "audio", "audio"}}}};
constexpr std::size_t kOfText = kModelParts.size();  // the rest
constexpr std::size_t kOfAll = kOfText + 1;

std::size_t part_of_key(std::string_view key, std::size_t around) {
  for (std::size_t i = 0; i < kModelParts.size(); ++i)
    if (key.starts_with(kModelParts.at(i).key)) return i;
  return key == kTextConfig ? kOfText : around;
}

std::size_t part_of_name(std::string_view name) {
  const auto has = [&](std::string_view word) { return name.find(word) != std::string_view::npos; };
  const auto found = std::ranges::find_if(
      kModelParts, [&](const ModelPart& part) { return std::ranges::any_of(part.names, has); });
  return static_cast<std::size_t>(found - kModelParts.begin());
}

// The dtype of most elements, by torch's name, for each part and for the whole.
using Written = std::array<std::optional<std::string>, kOfAll + 1>;

Written written_dtypes(const std::vector<Leaf>& leaves) {
  std::array<std::map<DType, std::uint64_t>, kOfAll + 1> elements;
  for (const Leaf& leaf : leaves) {
    for (const std::size_t part : {part_of_name(leaf.name), kOfAll})
      elements.at(part)[leaf.dtype] += leaf.shape.numel();
  }
  Written out;
  for (std::size_t part = 0; part < out.size(); ++part) {
    const auto most = std::ranges::max_element(elements.at(part), {},
                                               [](const auto& item) { return item.second; });
    if (most != elements.at(part).end()) out.at(part) = torch_name(most->first);
  }
  for (std::size_t part = 0; part < kOfAll; ++part)
    if (elements.at(part).empty()) out.at(part) = out.at(kOfAll);
  return out;
}

bool is_dtype(const Json& value) {
  constexpr std::array<std::string_view, 4> kKnown{"bfloat16", "float16", "float32", "float64"};
  return value.is_string() && std::ranges::find(kKnown, value.as_string()) != kKnown.end();
}

// Makes each part of a config state the dtype that was written. `changed` has the old and new value
// by part. The whole has an empty name.
void state_dtypes(Json& at, const std::string& path, std::size_t part, const Written& written,
                  std::map<std::string, std::pair<std::string, std::string>>& changed) {
  for (auto& [key, value] : at.object()) {
    if (value.is_object() && key != kQuantization) {
      const std::string below = path.empty() ? key : fmt::format("{}.{}", path, key);
      state_dtypes(value, below, part_of_key(key, part), written, changed);
    }
    const bool states = std::ranges::find(kDTypeKeys, key) != kDTypeKeys.end();
    const std::optional<std::string>& is = written.at(part);
    if (!states || !is || !is_dtype(value) || value.as_string() == *is) continue;
    changed.try_emplace(path, value.as_string(), *is);
    value = *is;
  }
}

}  // namespace

void write_dtype(const Catalog& source, std::optional<DType> asked, CompiledModel& model) {
  const std::string& text = text_of(source, model);
  if (text.empty()) return;
  Json config = parse_json(text, "config.json");
  if (!config.is_object()) return;
  std::map<std::string, std::pair<std::string, std::string>> changed;
  state_dtypes(config, {}, kOfAll, written_dtypes(model.leaves), changed);
  if (changed.empty()) return;
  model.config_text = dump_json_pretty(config);
  const auto whole = changed.find("");
  for (const auto& [part, dtypes] : changed) {
    if (!part.empty() && whole != changed.end() && dtypes == whole->second) continue;
    if (asked && torch_name(*asked) == dtypes.second) continue;
    model.notes.push_back(
        fmt::format("{}config.json now says {}, the dtype of the output, instead of {}",
                    part.empty() ? std::string() : part + " of ", dtypes.second, dtypes.first));
  }
}

std::string config_as_asked(const std::string& text, const std::string& name,
                            const MappingOptions& mapping) {
  if (!mapping.untie) return text;
  if (text.empty()) {
    throw Error(ErrorCode::usage, "--untie changes config.json, and the source doesn't have one")
        .in_file(name)
        .hint("pass --config DIR with the model's config.json");
  }
  Json config = parse_json(text, name);
  if (!config.is_object()) return text;
  untie(config, true);
  return dump_json_pretty(config);
}

void write_untied(const MappingOptions& mapping, const Catalog& source, CompiledModel& model) {
  if (!mapping.untie) return;
  model.config_text = config_as_asked(text_of(source, model), source.location, mapping);
}

void write_without_codes(const Catalog& source, CompiledModel& model) {
  const std::string& text = text_of(source, model);
  if (text.empty() || !was_coded(model) || keeps_codes(model, source)) return;
  const Json config = parse_json(text, config_path(source.location));
  const Json stated = without_quantization(config);
  if (!(stated == config)) model.config_text = dump_json_pretty(stated);
}

void write_without_leftover(const Catalog& tree, CompiledModel& model) {
  const std::string& text = text_of(tree, model);
  if (text.empty()) return;
  const Catalog made = tensors_of({model.leaves.begin(), model.leaves.end()}, {}, tree);
  const auto plain = without_leftover(parse_json(text, config_path(tree.location)), made);
  if (plain) model.config_text = dump_json_pretty(*plain);
}

void note_lacking_parts(const std::string& config_text, CompiledModel& model) {
  const Json config = parse_json(config_text, "config.json");
  if (!config.is_object()) return;
  for (const auto& [key, value] : config.as_object()) {
    const std::size_t part = part_of_key(key, kOfAll);
    if (part >= kModelParts.size() || !value.is_object()) continue;
    if (std::ranges::any_of(model.leaves,
                            [&](const Leaf& leaf) { return part_of_name(leaf.name) == part; }))
      continue;
    model.notes.push_back(
        fmt::format("config.json describes a part that the checkpoint doesn't have: {}", key));
  }
}

void count_no_mtp(const Catalog& tree, CompiledModel& model) {
  const std::string& text = text_of(tree, model);
  if (text.empty()) return;
  std::vector<std::string> names;
  for (const Leaf& leaf : model.leaves) names.push_back(leaf.name);
  const auto without = without_mtp(parse_json(text, "config.json"), names);
  if (!without) return;
  model.config_text = dump_json_pretty(without->config);
  model.notes.push_back(
      fmt::format("the source has no multi-token prediction layers, so {} in config.json becomes 0",
                  without->key));
}

}  // namespace hfshard
