#include "mapping/resolve/rope_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"

namespace hfshard {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kCompress = "compress";  // kind of rotary positions of DeepSeek V4
constexpr std::int64_t kMostHead = 1 << 20;         // no model has wider heads

const Json* not_null(const Json* json) {
  return json == nullptr || json->is_null() ? nullptr : json;
}

// Returns whether there is one set of parameters for each kind of layers.
bool is_nested(const Json& parameters) {
  return std::ranges::any_of(parameters.as_object(),
                             [](const auto& item) { return item.second.is_object(); });
}

// DeepSeek V4 uses kinds of rotary positions as keys. All others use kinds of layers.
std::string_view main_layers(const Json& nested) {
  for (const std::string_view name : {kFull, std::string_view("main")}) {
    if (not_null(nested.find(name)) != nullptr) return name;
  }
  return nested.as_object().begin()->first;
}

// Returns the attention scale of the YaRN paper, 0.1 m ln(factor) + 1.
double yarn_scale(double factor, double by = 1) {
  return factor <= 1 ? 1 : 0.1 * by * std::log(factor) + 1;
}

class RopeReader {
 public:
  RopeReader(const ConfigKey& find, std::string layers)
      : find_(find), layers_(std::move(layers)), scaling_(object("rope_scaling")) {
    const Json* parameters = object("rope_parameters");
    const bool nests = parameters != nullptr && is_nested(*parameters);
    if (nests) {
      const std::string_view of = layers_.empty() ? main_layers(*parameters) : layers_;
      // A flat rope_scaling next to it only changes the layers with full attention.
      if (of != main_layers(*parameters)) scaling_ = nullptr;
      parameters_ = not_null(parameters->find(of));
    } else if (layers_ == kSliding) {
      // Flat keys are those of full attention (convert_rope_params_to_dict of Gemma 3).
      scaling_ = nullptr;
      local_theta_ = find_("rope_local_base_freq");
    } else {
      parameters_ = parameters;
    }
    has_main_theta_ = nests || (layers_ != kSliding && layers_ != kCompress);
    if (parameters_ != nullptr && !parameters_->is_object()) parameters_ = nullptr;
    replaces_ = scaling_ != nullptr && !nests;
  }

  const Json* find(const std::string& key) const {
    if (key == "theta") return theta();
    if (key == "original_max_position_embeddings") return original();
    if (const Json* own = own_key(key)) return own;
    return key == "partial_rotary_factor" ? not_null(find_(key)) : nullptr;
  }

  std::string type() const {
    const Json* found = own_key("rope_type");
    if (found == nullptr) found = own_key("type");
    const std::string name =
        found != nullptr && found->is_string() ? found->as_string() : std::string("default");
    if (name == "su") return "longrope";
    return name == "mrope" ? "default" : name;
  }

  std::optional<double> number(const std::string& key) const {
    const Json* found = find(key);
    if (found == nullptr || !found->is_number()) return std::nullopt;
    return found->as_double();
  }

  std::optional<double> factor() const {
    if (const auto given = number("factor")) return given;
    const Json* longest = not_null(find_("max_position_embeddings"));
    const auto before = number("original_max_position_embeddings");
    if (longest == nullptr || !longest->is_number() || !before || *before <= 0) return std::nullopt;
    return longest->as_double() / *before;
  }

  bool is_said() const { return own_key("rope_type") != nullptr || own_key("type") != nullptr; }

  // Returns the number of positions after scaling.
  std::optional<double> longest() const {
    const Json* stated = not_null(find_("max_position_embeddings"));
    const double most = stated != nullptr && stated->is_number() ? stated->as_double() : 0;
    const auto before = number("original_max_position_embeddings");
    const double scaled = before && type() == "yarn" ? *before * factor().value_or(1) : 0;
    const double longest = std::ceil(std::max(most, scaled));
    return longest > 0 ? std::optional(longest) : std::nullopt;
  }

  std::string attention() const {
    const std::string kind = type();
    if (kind != "yarn" && kind != "longrope") return "none";
    const double by = factor().value_or(1);
    const double scale = number("attention_factor").value_or(default_attention(kind, by));
    constexpr double kNear = 1e-6;
    if (std::abs(scale - 1) < kNear) return "none";
    return std::abs(scale - yarn_scale(by)) < kNear ? "yarn" : "other";
  }

 private:
  const Json* object(const std::string& key) const {
    const Json* found = not_null(find_(key));
    const bool some = found != nullptr && found->is_object() && !found->as_object().empty();
    return some ? found : nullptr;
  }

  // A rope_scaling replaces rope_parameters, except those for each kind of layers.
  const Json* own_key(const std::string& key) const {
    if (scaling_ != nullptr) {
      if (const Json* found = not_null(scaling_->find(key))) return found;
      if (replaces_) return nullptr;
    }
    return parameters_ == nullptr ? nullptr : not_null(parameters_->find(key));
  }

  const Json* theta() const {
    if (!has_main_theta_) return local_theta_;
    if (const Json* own = own_key("rope_theta")) return own;
    if (const Json* stated = not_null(find_("rope_theta"))) return stated;
    return parameters_ == nullptr ? nullptr : not_null(parameters_->find("rope_theta"));
  }

  const Json* original() const {
    const std::string key = "original_max_position_embeddings";
    if (const Json* stated = not_null(find_(key))) return stated;
    if (const Json* own = own_key(key)) return own;
    return not_null(find_("max_position_embeddings"));
  }

  double default_attention(const std::string& kind, double by) const {
    if (kind == "longrope") {
      const double before = number("original_max_position_embeddings").value_or(0);
      return by <= 1 || before <= 1 ? 1 : std::sqrt(1 + std::log(by) / std::log(before));
    }
    const auto one = number("mscale");
    const auto all = number("mscale_all_dim");
    if (one.value_or(0) != 0 && all.value_or(0) != 0)
      return yarn_scale(by, *one) / yarn_scale(by, *all);
    return yarn_scale(by);
  }

  const ConfigKey& find_;
  std::string layers_;
  const Json* scaling_;
  const Json* parameters_ = nullptr;
  const Json* local_theta_ = nullptr;
  bool has_main_theta_ = true;  // or a flat base is of other layers, and only the local one counts
  bool replaces_ = false;
};

// Returns the default of transformers for a parameter that is absent or zero.
std::optional<ExprValue> standard(const std::string& key) {
  if (key == "beta_fast") return std::int64_t{32};
  if (key == "beta_slow") return std::int64_t{1};
  if (key == "truncate") return true;
  return std::nullopt;
}

// Qwen's interleaved positions for time, height and width. Source: transformers 5.23.0
// models/qwen3_vl/modeling_qwen3_vl.py, models/qwen3_5/modeling_qwen3_5.py (TextRotaryEmbedding).
struct Sections {
  std::string_view models;
  std::array<std::int64_t, 3> sizes;
  double part;        // rotated part of a head; 1 if partial_rotary_factor doesn't count
  std::int64_t head;  // width of a head without head_dim; 0 if that is hidden_size / heads
};
constexpr Sections kSections[] = {{"qwen3_5", {11, 11, 10}, 0.25, 256},
                                  {"qwen3_vl_moe", {24, 20, 20}, 1, 0},
                                  {"qwen3_omni", {24, 20, 20}, 1, 0},
                                  {"", {24, 20, 20}, 1, 128}};

// Returns a positive integer of config.json below kMostHead, or 0.
std::int64_t small_size(const ConfigKey& find, const std::string& key) {
  const Json* found = not_null(find(key));
  const bool fits = found != nullptr && found->is_integer() && found->as_int() > 0;
  return fits && found->as_int() <= kMostHead ? found->as_int() : 0;
}

// Returns the width of a head, or 0 if it isn't known.
std::int64_t head_width(const ConfigKey& find, std::int64_t usual) {
  if (not_null(find("head_dim")) != nullptr) return small_size(find, "head_dim");
  if (usual != 0) return usual;
  const std::int64_t heads = small_size(find, "num_attention_heads");
  return heads == 0 ? 0 : small_size(find, "hidden_size") / heads;
}

std::optional<std::array<std::int64_t, 3>> stated_sections(const Json* list) {
  if (list == nullptr || !list->is_array() || list->as_array().size() != 3) return std::nullopt;
  std::array<std::int64_t, 3> out{};
  for (std::size_t i = 0; i < out.size(); ++i) {
    const Json& size = list->as_array()[i];
    if (!size.is_integer() || size.as_int() < 0 || size.as_int() > kMostHead) return std::nullopt;
    out[i] = size.as_int();
  }
  return out;
}

// Returns the sections for this width of heads. In transformers, height gets the frequencies 1, 4,
// 7, ... before 3 * height, and width gets 2, 5, ... before 3 * width. Time gets the rest, for any
// sum. Empty if the sections of config.json, or else the default ones, fit already.
std::optional<std::string> fitted_sections(const ConfigKey& find, const RopeReader& reader) {
  const Json* model = find("model_type");
  const std::string name = model != nullptr && model->is_string() ? model->as_string() : "";
  const Sections& usual = *std::ranges::find_if(
      kSections, [&](const Sections& item) { return name.starts_with(item.models); });
  const std::int64_t head = head_width(find, usual.head);
  if (head < 2) return std::nullopt;
  const double part =
      usual.part < 1 ? reader.number("partial_rotary_factor").value_or(usual.part) : 1;
  const auto half = static_cast<std::int64_t>(static_cast<double>(head) * part) / 2;
  const Json* list = reader.find("mrope_section");
  if (list != nullptr && !stated_sections(list)) return std::nullopt;
  const std::array<std::int64_t, 3> sizes = stated_sections(list).value_or(usual.sizes);
  if (sizes[0] + sizes[1] + sizes[2] == half) return std::nullopt;
  const std::int64_t height = (std::min(3 * sizes[1], half) + 1) / 3;
  const std::int64_t width = std::min(3 * sizes[2], half) / 3;
  return fmt::format("[{},{},{}]", half - height - width, height, width);
}

bool is_zero(const Json& value) { return value.is_number() && value.as_double() == 0; }

}  // namespace

ExprValue rope_fact(const ConfigKey& find, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const bool about_layers = dot != std::string_view::npos;
  const RopeReader reader(find, std::string(about_layers ? name.substr(0, dot) : ""));
  const std::string key(about_layers ? name.substr(dot + 1) : name);
  if (key == "type") return reader.type();
  if (key == "attention") return reader.attention();
  if (key == "said") return reader.is_said();
  if (key == "longest") {
    if (const auto longest = reader.longest()) return *longest;
  }
  if (key == "factor") {
    if (const auto factor = reader.factor()) return *factor;
  }
  if (key == "mrope_section") {
    if (auto fitted = fitted_sections(find, reader)) return *std::move(fitted);
  }
  const Json* found = reader.find(key);
  const std::optional<ExprValue> otherwise = standard(key);
  if (found == nullptr || (otherwise && is_zero(*found))) {
    if (otherwise) return *otherwise;
    return Absent{fmt::format("config.json lacks the {} of the rotary positions", quote(key))};
  }
  if (found->is_bool()) return found->as_bool();
  if (found->is_string()) return found->as_string();
  if (found->is_integer()) return found->as_int();
  if (found->is_number()) return found->as_double();
  return dump_json(*found);  // a list
}

}  // namespace hfshard
