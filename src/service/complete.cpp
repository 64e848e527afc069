#include "service/complete.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/quantization.h"
#include "mapping/tables/table.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/missing_layers.h"
#include "plan/compile/steps.h"
#include "service/uneven.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr const char* kTakeAll = "to convert the arrays as they are, pass --include '*'";

// Checks the names with the first scheme that has the model. Returns nothing if no scheme has it,
// and sets `why` to the first scheme's reason.
std::optional<NameCheck> check_by(const MappingTable& table, const Catalog& catalog,
                                  const MappingOptions& asked, Requirements requirements,
                                  std::string& why) {
  MappingOptions options;
  options.options = asked.options;
  options.files = asked.files;
  for (const Scheme& scheme : table.schemes) {
    options.scheme = scheme.name;
    for (const bool stacked : {true, false}) {
      options.stacked = stacked;
      try {
        return check_names(catalog, options, requirements);
      } catch (const Error& error) {  // the scheme doesn't have the model
        if (error.code() == ErrorCode::internal || !error.tensor().empty()) throw;
        if (why.empty()) why = error.sentence();
      }
    }
  }
  return std::nullopt;
}

// Returns the first method whose tensors have one of these names, or nullptr.
const UndecodedMethod* undecoded_among(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (const UndecodedMethod* method = quantization().undecoded_name(name)) return method;
  }
  return nullptr;
}

std::string words_of(const UndecodedMethod& method) {
  return fmt::format("it is quantized with {}", method.what);
}

// Checks the names as check_by does, without the model's requirements if no scheme meets them.
// `is_known`: set to whether one does. Returns nothing for codes that can't be decoded.
std::optional<NameCheck> check_as_known(const MappingTable& table, const Catalog& catalog,
                                        const MappingOptions& mapping, bool& is_known,
                                        std::string& why) {
  try {
    auto check = check_by(table, catalog, mapping, Requirements::hold, why);
    is_known = check.has_value();
    return is_known ? check : check_by(table, catalog, mapping, Requirements::are_passed_over, why);
  } catch (const Error&) {  // packed codes have other shapes than the model
    std::vector<std::string> names;
    for (const TensorInfo& tensor : catalog.tensors) names.push_back(tensor.name);
    const UndecodedMethod* method = undecoded_among(names);
    if (method == nullptr) throw;
    why = words_of(*method);
    return std::nullopt;
  }
}

// The rules of a family without biases don't list biases, even if the config says it has them.
bool is_bias_of_config(const Json& config, std::string_view name) {
  const auto says = [&](std::string_view key) {
    const Json* flag = config.find(key);
    return flag != nullptr && flag->is_bool() && flag->as_bool();
  };
  return name.ends_with(".bias") && (says("attention_bias") || says("mlp_bias"));
}

// Returns whether the config names a class without an output head. Source: huggingface/transformers
// src/transformers/models/auto/modeling_auto.py (names of the classes); reward models end in Model.
bool has_no_head(const Json& config) {
  constexpr std::array<std::string_view, 4> kHeadless{
      "Model", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"};
  const Json* classes = config.find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->as_array().empty()) return false;
  const Json& first = classes->as_array().front();
  if (!first.is_string() || first.as_string().ends_with("LMHeadModel")) return false;
  return std::ranges::any_of(
      kHeadless, [&](std::string_view end) { return first.as_string().ends_with(end); });
}

// Describes how the names differ from the family's rules, which may not know this model well.
std::string doubt_of(const NameCheck& check, std::size_t missing, const CheckFinding* first,
                     const std::vector<std::string>& others) {
  if (missing == 0 && others.empty()) return {};
  std::string out =
      fmt::format("the output may not be a whole model: of the names in {} models, ", check.family);
  out += missing == 0 ? "none are missing"
                      : fmt::format("{} {} missing, such as {}", missing,
                                    missing == 1 ? "is" : "are", quote(first->tensor));
  if (!others.empty()) out += fmt::format("; unknown names: {}", quoted_list(others, kShownNames));
  return out;
}

// Returns a warning if something is missing among tensors that rules drop, such as a vision tower.
std::string doubt_of_dropped(const NameCheck& check) {
  std::vector<std::string> names;
  for (const CheckFinding& dropped : check.dropped) {
    if (dropped.rule != kBesideCodes) names.push_back(dropped.tensor);  // not each layer has codes
  }
  const std::string lack = uneven_modules(names);
  return lack.empty() ? lack : "the output may not be a whole model: " + lack;
}

// Returns a warning if all names of a model with an unknown family are below one key, as in
// {"model": state_dict}. Sources of the keys: huggingface/accelerate
// src/accelerate/utils/fsdp_utils.py (model); Lightning-AI/pytorch-lightning
// src/lightning/pytorch/trainer/connectors/checkpoint_connector.py (state_dict); pytorch/tutorials
// recipes_source/distributed_checkpoint_recipe.rst (app).
std::string doubt_of_root(const Catalog& tree) {
  constexpr std::array<std::string_view, 4> kRoots{"model", "module", "state_dict", "app"};
  for (const std::string_view root : kRoots) {
    bool all = !tree.tensors.empty();
    bool nested = false;
    for (const TensorInfo& info : tree.tensors) {
      const bool below = info.name.starts_with(root) &&
                         std::string_view(info.name).substr(root.size()).starts_with('.');
      all = below;
      if (!below) break;
      const std::string_view rest = std::string_view(info.name).substr(root.size() + 1);
      nested = nested || rest.starts_with("model.") || rest.starts_with("lm_head.");
    }
    if (all && nested) {
      return fmt::format("all tensors are below {}; pass --root {} to read the names below it",
                         quote(root), root);
    }
  }
  return {};
}

std::string why_unknown(const Json& config) {
  const Json* type = config.find("model_type");
  return type != nullptr && type->is_string()
             ? fmt::format("no family has model_type {}", quote(type->as_string()))
             : std::string("config.json has no model_type");
}

// Adds the names that no rule has. Returns what is missing.
std::vector<CheckFinding> take_others(const NameCheck& check, const MappingOptions& mapping,
                                      bool headless, Completeness& out) {
  std::vector<CheckFinding> lacking;
  for (const CheckFinding& finding : check.findings) {
    const bool is_left_out = left_out(mapping, finding.tensor).has_value();
    if (finding.rule.empty()) {
      (is_left_out ? out.left_out_others : out.others).push_back(finding.tensor);
    } else if (!is_left_out && !(finding.untied && headless)) {
      lacking.push_back(finding);
    }
  }
  return lacking;
}

// Describes the layers of which nothing is there. Dropped tensors don't belong to the model's
// layers.
std::string lacking_layers(const Catalog& catalog, const NameCheck& check,
                           const std::vector<CheckFinding>& lacking) {
  std::vector<std::string> missing;
  missing.reserve(lacking.size());
  for (const CheckFinding& finding : lacking) missing.push_back(finding.tensor);
  std::set<std::string_view> dropped;
  for (const CheckFinding& finding : check.dropped) dropped.insert(finding.tensor);
  std::vector<std::string> wanted = missing;
  for (const TensorInfo& tensor : catalog.tensors) {
    if (!dropped.contains(tensor.name)) wanted.push_back(tensor.name);
  }
  return missing_layers(wanted, missing);
}

// A check of names, and the tensors of the model that are missing.
struct Compared {
  Completeness found;
  NameCheck check;
  std::vector<CheckFinding> lacking;
};

// Compares names with a config, whatever --include selects. Throws: bad_input (another shape).
Compared compare_names(const Catalog& catalog, const MappingOptions& mapping) {
  Compared made;
  Completeness& out = made.found;
  if (catalog.config_text.empty()) {
    out.unchecked = "without a config.json, hfshard can't tell which tensors the model has";
    return made;
  }
  const Json config = parse_json(catalog.config_text, config_path(catalog.location));
  const std::optional<FamilyFile> family = find_family(config, mapping.files);
  if (!family) {
    out.is_unknown = true;
    out.unchecked = why_unknown(config);
    return made;
  }
  const MappingTable table = load_table(*family);
  bool is_known = false;
  auto check = check_as_known(table, catalog, mapping, is_known, out.unchecked);
  if (!check) return made;
  const std::string why = std::exchange(out.unchecked, {});
  out.family = check->family;
  std::vector<CheckFinding> lacking = take_others(*check, mapping, has_no_head(config), out);
  if (const UndecodedMethod* method = undecoded_among(out.others)) {
    out.others.clear();  // codes aren't tensors of the model
    out.unchecked = words_of(*method);
    return made;
  }
  if (!is_known) {
    std::erase_if(out.others,
                  [&](const std::string& name) { return is_bias_of_config(config, name); });
    out.doubt = doubt_of(*check, lacking.size(), lacking.empty() ? nullptr : &lacking.front(),
                         std::exchange(out.others, {}));
    if (out.doubt.empty()) {
      out.compared =
          fmt::format("names and shapes are those of {} models; hfshard checked nothing else: {}",
                      check->family, why);
    }
    return made;
  }
  out.doubt = doubt_of_dropped(*check);
  made.check = *std::move(check);
  made.lacking = std::move(lacking);
  return made;
}

// Works like check_complete, whatever --include selects.
Completeness check_all(const Catalog& catalog, const MappingOptions& mapping) {
  Compared made = compare_names(catalog, mapping);
  const std::size_t missing = made.lacking.size();
  if (missing == 0) return std::move(made.found);
  const std::vector<std::string>& others = made.found.others;
  const std::string layers = lacking_layers(catalog, made.check, made.lacking);
  throw Error(ErrorCode::not_found,
              missing == 1 ? std::string("the source lacks a tensor of the model")
                           : fmt::format("the source lacks {} tensors of the model", missing))
      .in_file(catalog.location)
      .in_tensor(made.lacking.front().tensor)
      .by_rule(made.lacking.front().rule)
      .hint(fmt::format(
          "config.json expects {}{}{}; {}", missing == 1 ? "it" : "them",
          others.empty() ? std::string() : "; no rule has " + quoted_list(others, kShownNames),
          layers.empty() ? "" : "; " + layers, kTakeAll));
}

}  // namespace

Completeness check_complete(const Catalog& catalog, const MappingOptions& mapping) {
  if (mapping.num_layers) return {};
  if (mapping.include.empty()) return check_all(catalog, mapping);
  Completeness out;
  try {
    out.doubt = check_all(catalog, mapping).doubt;
  } catch (const Error& error) {
    const std::string tensor = quote(error.tensor());
    out.doubt = "the output may not be a whole model: " +
                (error.code() == ErrorCode::not_found
                     ? fmt::format("{}, such as {}", error.sentence(), tensor)
                     : fmt::format("{}: {}", tensor, error.sentence()));
  }
  return out;
}

Completeness check_complete_tree(Catalog tree, std::string config_text,
                                 const MappingOptions& mapping) {
  tree.config_text = std::move(config_text);
  Completeness found = check_complete(tree, mapping);
  if (found.is_unknown) {
    found.unchecked += ", so the arrays keep their names";
    found.doubt = doubt_of_root(tree);
  }
  if (found.others.empty()) return found;
  const std::size_t count = found.others.size();
  throw Error(ErrorCode::bad_input,
              fmt::format("{} no rule of family {}: {}",
                          count == 1 ? "an array matches" : fmt::format("{} arrays match", count),
                          quote(found.family), quoted_list(found.others, kShownNames)))
      .in_file(tree.location)
      .in_tensor(found.others.front())
      .hint(fmt::format(
          "pass --exclude GLOB to leave arrays out, or --root KEY to read a subtree; {}",
          kTakeAll));
}

std::optional<std::size_t> count_lacking(Catalog tree, std::string config_text,
                                         const MappingOptions& mapping) {
  tree.config_text = std::move(config_text);
  MappingOptions options;
  options.files = mapping.files;
  options.scheme = "hf";
  try {
    return compare_names(tree, options).lacking.size();
  } catch (const Error& error) {  // another shape, or codes
    if (error.code() == ErrorCode::internal) throw;
    return std::nullopt;
  }
}

}  // namespace hfshard
