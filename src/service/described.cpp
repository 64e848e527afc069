#include "service/described.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "mapping/find.h"
#include "mapping/resolve.h"
#include "mapping/table.h"
#include "plan/compile/steps.h"
#include "service/example.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// The dtype that most tensors of a model have, as its config says.
DType dtype_of_config(const Json& config) {
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    const Json* named = config.find(key);
    if (named == nullptr || !named->is_string()) continue;
    if (named->as_string() == "float32") return DType::f32;
    if (named->as_string() == "float16") return DType::f16;
  }
  return DType::bf16;
}

// Tensors of a model as it was that were no codes keep their dtypes.
void keep_dtypes(const Model& was, Catalog& catalog) {
  std::vector<bool> coded(was.catalog().tensors.size(), false);
  for (const Transfer& transfer : was.transfers) {
    for (const std::uint32_t source : transfer.sources) {
      if (transfer.decode) coded[source] = true;
    }
  }
  for (TensorInfo& info : catalog.tensors) {
    const auto found = was.catalog().find(info.name);
    if (found && !coded[*found]) info.dtype = was.catalog().tensors[*found].dtype;
  }
}

// The same of tensors with other names than the model had, by the leaves that they become.
void keep_dtypes(const Model& was, Described& out) {
  for (const Transfer& transfer : out.model.transfers) {
    const std::string& name = out.model.leaves[transfer.target].name;
    const auto leaf = std::ranges::lower_bound(was.leaves, name, {}, &Leaf::name);
    if (leaf == was.leaves.end() || leaf->name != name) continue;
    const auto before = was.leading_to(static_cast<std::uint32_t>(leaf - was.leaves.begin()));
    if (before.empty() || before.front()->decode) continue;
    for (const std::uint32_t source : transfer.sources) {
      TensorInfo& info = out.catalog.tensors[source];
      if (!was.catalog().find(info.name)) info.dtype = before.front()->source_dtype;
    }
  }
}

// The schemes of a family, the main one first.
std::vector<std::string> schemes_of(const FamilyFile& family) {
  const MappingTable table = load_table(family);
  std::vector<std::string> out{table.main_scheme().name};
  for (const Scheme& scheme : table.schemes) {
    if (scheme.name != out.front()) out.push_back(scheme.name);
  }
  return out;
}

// What a model with these options has in one scheme.
Described describe_in(const FamilyFile& family, const Json& config, const std::string& config_text,
                      const MappingOptions& mapping, const Model* was) {
  Described out;
  out.catalog =
      example_catalog(family, config, dtype_of_config(config), mapping.options, mapping.scheme);
  out.catalog.config_text = config_text;
  if (was != nullptr) keep_dtypes(*was, out.catalog);
  out.model = compile_model(out.catalog, mapping);
  if (was != nullptr) keep_dtypes(*was, out);
  return out;
}

// Pointers of the rules whose sources keep a wide dtype beside a model of a narrower one.
std::map<std::string, DType> rules_that_stay(const Scheme& scheme) {
  std::map<std::string, DType> out;
  const auto add = [&](const Rule& rule) {
    if (rule.modifiers.stays) out.emplace(rule.pointer, *rule.modifiers.stays);
  };
  std::ranges::for_each(scheme.global, add);
  for (const LayerGroup& group : scheme.groups) std::ranges::for_each(group.rules, add);
  return out;
}

// What config.json does not say: whether such tensors were stored so. The tree does.
void take_wide(const FamilyFile& family, const Catalog& tree, Described& out) {
  const std::map<std::string, DType> stay =
      rules_that_stay(load_table(family).scheme_or_main(out.model.scheme));
  for (const Transfer& transfer : out.model.transfers) {
    const auto rule = stay.find(out.model.rules[transfer.rule]);
    const auto array = tree.find(out.model.leaves[transfer.target].name);
    if (rule == stay.end() || !array || tree.tensors[*array].dtype != rule->second) continue;
    for (const std::uint32_t source : transfer.sources)
      out.catalog.tensors[source].dtype = rule->second;
  }
}

// What tensors a model has whose leaves in a dialect are the arrays of a tree: those of the rules'
// sources, and under their files' names all others.
Catalog tensors_behind(const ResolvedModel& rules, const Catalog& tree) {
  Catalog out;
  out.location = tree.location;
  out.directory = tree.directory;
  std::vector<bool> ruled(tree.tensors.size(), false);
  for (const ResolvedRule& rule : rules.rules) {
    const auto array = tree.find(renamed(rules.renames, rule.target));
    if (!array) continue;
    ruled[*array] = true;
    if (rule.rule->modifiers.copy) continue;
    for (const std::string& name : rule.sources) {
      TensorInfo tensor;
      tensor.name = name;
      tensor.shape = rule.source_layout.shape;
      tensor.dtype = tree.tensors[*array].dtype;
      out.tensors.push_back(std::move(tensor));
    }
  }
  for (std::size_t i = 0; i < ruled.size(); ++i) {
    if (ruled[i]) continue;
    TensorInfo tensor;
    tensor.name = renamed_back(rules.renames, tree.tensors[i].name);
    tensor.shape = tree.tensors[i].shape;
    tensor.dtype = tree.tensors[i].dtype;
    out.tensors.push_back(std::move(tensor));
  }
  std::ranges::sort(out.tensors, {}, &TensorInfo::name);
  const auto twice = std::unique(  // which several rules take a part of
      out.tensors.begin(), out.tensors.end(),
      [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  out.tensors.erase(twice, out.tensors.end());
  return out;
}

// Whether every leaf is the tensor of its name, as it is.
bool is_same(const Described& made) {
  return std::ranges::all_of(made.model.transfers, [&](const Transfer& transfer) {
    const Leaf& leaf = made.model.leaves[transfer.target];
    return !transfer.copy && transfer.sources.size() == 1 &&
           made.catalog.tensors[transfer.sources.front()].name == leaf.name &&
           normalize(transfer.map) == normalize(identity_map(leaf.shape));
  });
}

// The model of a config whose leaves in a dialect a tree has; nothing if it has not, or if they are
// those of the model's files and `was`, which knows its dtypes, is not given.
std::optional<Described> describe_dialect(const Catalog& tree, const std::string& config_text,
                                          const std::string& config_name,
                                          const MappingOptions& mapping, const Model* was) {
  const Json config = parse_json(config_text, config_name);
  const std::optional<FamilyFile> family = find_family(config, mapping.files);
  if (!family) return std::nullopt;
  const MappingTable table = load_table(*family);
  for (const Scheme& dialect : table.dialects) {
    MappingOptions options;
    options.scheme = dialect.rest;
    options.dialect = dialect.name;
    options.flat_names = true;
    options.files = mapping.files;
    Described out;
    try {
      Bindings bindings(table, config, options.options, {});
      out.catalog = tensors_behind(resolve(dialect, bindings, false), tree);
      out.catalog.config_text = config_text;
      if (was != nullptr) keep_dtypes(*was, out.catalog);
      out.model = compile_model(out.catalog, options);
    } catch (const Error& error) {  // a model that has other names
      if (error.code() == ErrorCode::internal) throw;
      continue;
    }
    if (has_all(tree, out.model) && (was != nullptr || !is_same(out))) return out;
  }
  return std::nullopt;
}

}  // namespace

std::string without_codes(const std::string& config_text, const std::string& name) {
  constexpr const char* kCodes = "quantization_config";
  Json config = parse_json(config_text, name);
  config.object().erase(kCodes);
  if (config.find("text_config") != nullptr) config["text_config"].object().erase(kCodes);
  return dump_json_pretty(config);
}

std::optional<CompiledModel> compile_from_dialect(const Catalog& tree,
                                                  const std::string& config_text,
                                                  const std::string& config_name,
                                                  const MappingOptions& mapping, const Model* was) {
  const std::string config = without_codes(config_text, config_name);
  const auto described = describe_dialect(tree, config, config_name, mapping, was);
  if (!described) return std::nullopt;
  CompiledModel model = compile_inverse(described->model, described->catalog, tree, mapping);
  if (!(parse_json(config_text, config_name) == parse_json(config, config_name)))
    model.config_text = config;
  return model;
}

bool has_all(const Catalog& tree, const CompiledModel& model) {
  return std::ranges::all_of(model.leaves,
                             [&](const Leaf& leaf) { return tree.find(leaf.name).has_value(); });
}

Described describe_model(const Catalog& tree, const std::string& config_text,
                         const std::string& config_name, MappingOptions mapping, const Model* was) {
  const Json config = parse_json(config_text, config_name);
  const FamilyFile family = family_of(config, config_name, mapping.files);
  mapping.dtype.reset();
  mapping.casts.clear();
  mapping.include.clear();
  mapping.exclude.clear();
  std::optional<Described> first;
  std::optional<Error> refused;
  for (const std::string& scheme : schemes_of(family)) {
    mapping.scheme = scheme;
    for (const bool stacked : {mapping.stacked, !mapping.stacked}) {
      MappingOptions options = mapping;
      options.stacked = stacked;
      try {
        Described out = describe_in(family, config, config_text, options, was);
        if (has_all(tree, out.model)) {
          if (was == nullptr) take_wide(family, tree, out);
          return out;
        }
        if (!first) first = std::move(out);
      } catch (const Error& error) {  // an error if it is so in every scheme
        if (error.code() == ErrorCode::internal) throw;
        if (!refused) refused = error;
      }
    }
  }
  if (!first) throw Error(*refused);
  return *std::move(first);
}

}  // namespace hfshard
