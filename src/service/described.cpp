#include "service/described.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/resolve.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "plan/compile/steps.h"
#include "service/example.h"
#include "service/parts.h"
#include "service/recorded_model.h"
#include "service/tree_names.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Returns the dtype of most tensors if the model's config states it, for the whole or for its text
// part.
std::optional<DType> dtype_of_config(const Json& config) {
  for (const std::string_view key : {"dtype", "torch_dtype"}) {
    const Json* named = config.find(key);
    if (named == nullptr || !named->is_string()) continue;
    if (named->as_string() == "float32") return DType::f32;
    if (named->as_string() == "float16") return DType::f16;
    return DType::bf16;
  }
  for (const std::string_view part : {"text_config", "thinker_config"}) {
    const Json* below = config.find(part);
    if (below != nullptr && below->is_object()) return dtype_of_config(*below);
  }
  return std::nullopt;
}

// Keeps the dtypes that `was` has, except for tensors that were codes.
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

// Does the same for tensors that `was` has under other names. Their leaves identify them.
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

// Returns a family's schemes, the main one first.
std::vector<std::string> schemes_of(const MappingTable& table) {
  std::vector<std::string> out{table.main_scheme().name};
  for (const Scheme& scheme : table.schemes) {
    if (scheme.name != out.front()) out.push_back(scheme.name);
  }
  return out;
}

// Returns the options that can have made a tree of the family: each scheme, layout and release.
std::vector<MappingOptions> layouts_of(const FamilyFile& family, MappingOptions mapping) {
  std::vector<MappingOptions> out;
  const Bindings::Options asked = mapping.options;
  const bool stacked = mapping.stacked;
  const MappingTable table = load_table(family);
  for (const std::string& scheme : schemes_of(table)) {
    mapping.scheme = scheme;
    for (const Bindings::Options& options : for_each_form(*table.scheme(scheme), asked)) {
      mapping.options = options;
      for (const bool layout : {stacked, !stacked}) {
        mapping.stacked = layout;
        out.push_back(mapping);
      }
    }
  }
  return out;
}

// Describes a model with these options in one scheme.
Described describe_in(const FamilyFile& family, const Json& config, const std::string& config_text,
                      const MappingOptions& mapping, const Model* was) {
  Described out;
  out.catalog = example_catalog(family, config, dtype_of_config(config).value_or(DType::bf16),
                                mapping.options, mapping.scheme);
  out.catalog.config_text = config_text;
  if (was != nullptr) keep_dtypes(*was, out.catalog);
  out.model = compile_model(out.catalog, mapping);
  if (was != nullptr) keep_dtypes(*was, out);
  return out;
}

// Returns pointers of the rules whose sources keep a wide dtype in a narrower model.
std::map<std::string, DType> rules_that_stay(const Scheme& scheme) {
  std::map<std::string, DType> out;
  const auto add = [&](const Rule& rule) {
    if (rule.modifiers.stays && !rule.modifiers.integers)
      out.emplace(rule.pointer, *rule.modifiers.stays);
  };
  std::ranges::for_each(scheme.global, add);
  for (const LayerGroup& group : scheme.groups) std::ranges::for_each(group.rules, add);
  return out;
}

// Takes a tree's dtypes, for a config.json that doesn't state one.
void take_dtypes(const Catalog& tree, Described& out) {
  for (const Transfer& transfer : out.model.transfers) {
    const auto array = tree.find(out.model.leaves[transfer.target].name);
    if (!array || !is_float(tree.tensors[*array].dtype)) continue;
    for (const std::uint32_t source : transfer.sources) {
      DType& dtype = out.catalog.tensors[source].dtype;
      if (is_float(dtype)) dtype = tree.tensors[*array].dtype;
    }
  }
}

// Takes wide dtypes from the tree. config.json doesn't state which tensors were stored that way.
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

// Returns the tensors of a model whose leaves in a dialect are a tree's arrays. Rules give their
// sources' names. All other arrays get their names in the files.
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
  const auto twice = std::unique(  // several rules take a part of it
      out.tensors.begin(), out.tensors.end(),
      [](const TensorInfo& a, const TensorInfo& b) { return a.name == b.name; });
  out.tensors.erase(twice, out.tensors.end());
  return out;
}

// Returns whether every leaf is the unchanged tensor with its name.
bool is_same(const Described& made) {
  return std::ranges::all_of(made.model.transfers, [&](const Transfer& transfer) {
    const Leaf& leaf = made.model.leaves[transfer.target];
    return !transfer.copy && transfer.sources.size() == 1 &&
           made.catalog.tensors[transfer.sources.front()].name == leaf.name &&
           normalize(transfer.map) == normalize(identity_map(leaf.shape));
  });
}

// Returns whether a tree has the shapes of the files for names that have other shapes in the
// dialect. Published files have such tensors in either order.
bool has_shapes_of_files(const Catalog& tree, const Described& made) {
  return std::ranges::any_of(made.model.transfers, [&](const Transfer& transfer) {
    const Leaf& leaf = made.model.leaves[transfer.target];
    if (transfer.sources.size() != 1) return false;
    const TensorInfo& file = made.catalog.tensors[transfer.sources.front()];
    const TensorInfo& array = tree.tensors[tree.find(leaf.name).value()];
    return file.name == leaf.name && !(array.shape == leaf.shape) && array.shape == file.shape;
  });
}

// Returns the model of a config if a tree has its leaves in a dialect. Returns nothing otherwise.
// It also returns nothing if the leaves are the files' tensors and `was`, which knows dtypes, isn't
// given.
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
    } catch (const Error& error) {  // the model has other names
      if (error.code() == ErrorCode::internal) throw;
      continue;
    }
    if (!has_all(tree, out.model) || (was == nullptr && is_same(out))) continue;
    if (!has_shapes_of_files(tree, out)) return out;
  }
  return std::nullopt;
}

}  // namespace

namespace {

template <typename Arrays>
Naming naming_of(const Arrays& arrays, std::string head, bool nnx, bool files) {
  Naming out{std::move(head), {}, nnx, files, {}, {}, {}};
  for (const Array& array : arrays) out.names.push_back(array.name);
  std::ranges::sort(out.names);
  return out;
}

// Returns the prefix of most names in a model's files, such as "model.".
template <typename Arrays>
std::string common_head(const Arrays& arrays) {
  if (arrays.empty()) return {};
  const std::string& middle = arrays[arrays.size() / 2].name;
  const std::string head = middle.substr(0, middle.find('.') + 1);
  const auto with = std::ranges::count_if(
      arrays, [&](const Array& array) { return array.name.starts_with(head); });
  return 2 * static_cast<std::size_t>(with) > arrays.size() ? head : std::string();
}

std::string about_scheme(const std::string& name) {
  const std::vector<SchemeSummary> known = known_schemes();
  const auto found = std::ranges::find(known, name, &SchemeSummary::name);
  return found == known.end() ? "the names of scheme " + name : found->about;
}

// Returns a naming as earlier releases of the scheme's loader have it, if they differ.
std::optional<Naming> former_naming(const Naming& naming, const std::string& scheme) {
  std::vector<std::pair<std::string, std::string>> pairs;  // former and present name
  for (const std::string& name : naming.names) pairs.emplace_back(former_name(scheme, name), name);
  if (std::ranges::all_of(pairs, [](const auto& pair) { return pair.first == pair.second; }))
    return std::nullopt;
  std::ranges::sort(pairs);
  Naming out = naming;
  out.names.clear();
  for (auto& [former, present] : pairs) {
    out.names.push_back(std::move(former));
    out.present.push_back(std::move(present));
  }
  out.about = fmt::format("{} from an earlier release", naming.about);
  return out;
}

// Returns the keys above a model's names that differ from the scheme's only in the last key.
std::vector<std::string> collections_of(const CompiledModel& model, const Scheme& scheme) {
  const std::string head = scheme.head();
  if (scheme.root.size() < 2) return {};
  const std::string above = head.substr(0, head.size() - scheme.root.back().size() - 1);
  std::set<std::string> out;
  for (const Leaf& leaf : model.leaves) {
    if (!leaf.name.starts_with(above) || leaf.name.starts_with(head)) continue;
    out.insert(leaf.name.substr(0, leaf.name.find('.', above.size()) + 1));
  }
  return {out.begin(), out.end()};
}

// Adds the file names of a model that no scheme can compute. They come from the family's rules.
void add_by_rules(const std::string& text, MappingOptions options, std::vector<Naming>& out) {
  options.scheme = MappingOptions().scheme;
  for (const bool stacked : {true, false}) {
    options.stacked = stacked;
    try {
      const NameCheck check =
          check_names(NameList{"", text, {}}, options, Requirements::are_passed_over);
      std::vector<TensorInfo> needed(check.findings.size());
      for (std::size_t i = 0; i < needed.size(); ++i) needed[i].name = check.findings[i].tensor;
      if (!needed.empty()) out.push_back(naming_of(needed, common_head(needed), false, true));
      return;
    } catch (const Error& error) {  // the rules don't have this model
      if (error.code() == ErrorCode::internal) throw;
    }
  }
}

}  // namespace

std::vector<Naming> namings_of(const std::string& config_text, const std::string& config_name,
                               const MappingOptions& mapping) {
  std::vector<Naming> out;
  const std::string text = without_codes(config_text, config_name);
  const Json config = parse_json(text, config_name);
  const std::optional<FamilyFile> family = find_family(config, mapping.files);
  if (!family) return out;
  const MappingTable table = load_table(*family);
  MappingOptions options;
  options.files = mapping.files;
  options.flat_names = true;
  std::optional<Catalog> files;
  const Json coded = parse_json(config_text, config_name);
  const auto add = [&](const Scheme& scheme) {
    try {
      const Described made = keeps_codes(options.options)
                                 ? describe_in(*family, coded, config_text, options, nullptr)
                                 : describe_in(*family, config, text, options, nullptr);
      if (!files) files = made.catalog;
      const bool nnx = scheme.name == MappingOptions().scheme;
      out.push_back(naming_of(made.model.leaves, scheme.head(), nnx, false));
      out.back().collections = collections_of(made.model, scheme);
      out.back().about = about_scheme(scheme.name);
      if (auto former = former_naming(out.back(), scheme.name)) out.push_back(*std::move(former));
    } catch (const Error& error) {  // the scheme doesn't have this model
      if (error.code() == ErrorCode::internal) throw;
    }
  };
  for (const Scheme& scheme : table.schemes) {
    options.scheme = scheme.name;
    for (const Bindings::Options& chosen : for_each_form(scheme, mapping.options)) {
      options.options = chosen;
      for (const bool stacked : {true, false}) {
        options.stacked = stacked;
        add(scheme);
      }
    }
  }
  options.options = mapping.options;
  if (!files) {
    add_by_rules(text, options, out);
    return out;
  }
  for (const Scheme& dialect : table.dialects) {
    options.scheme = dialect.rest;
    options.dialect = dialect.name;
    try {
      const CompiledModel made = compile_model(*files, options);
      out.push_back(naming_of(made.leaves, common_head(made.leaves), false, true));
      out.back().about = fmt::format("the names of --dialect {}", dialect.name);
    } catch (const Error& error) {  // the dialect doesn't have this model
      if (error.code() == ErrorCode::internal) throw;
    }
  }
  out.push_back(naming_of(files->tensors, common_head(files->tensors), false, true));
  return out;
}

std::string without_codes(const std::string& config_text, const std::string& name) {
  return dump_json_pretty(without_quantization(parse_json(config_text, name)));
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

namespace {

std::size_t count_found(const Catalog& tree, const CompiledModel& model) {
  return static_cast<std::size_t>(std::ranges::count_if(
      model.leaves, [&](const Leaf& leaf) { return tree.find(leaf.name).has_value(); }));
}

// Returns whether a tree has arrays below the scheme's keys that the model lacks.
bool has_others(const Catalog& tree, const MappingTable& table, const CompiledModel& model) {
  const std::string head = table.scheme_or_main(model.scheme).head();
  const auto below = std::ranges::count_if(
      tree.tensors, [&](const TensorInfo& info) { return info.name.starts_with(head); });
  return static_cast<std::size_t>(below) > model.leaves.size();
}

// Takes what a config doesn't state from a tree that has all of its model's leaves.
void take_from_tree(const FamilyFile& family, const Json& config, const Catalog& tree,
                    const MappingOptions& options, Described& out) {
  const MappingTable table = load_table(family);
  add_parts(options, [&](const MappingOptions& more) {
    if (!has_others(tree, table, out.model)) return false;
    Described made = describe_in(family, config, out.catalog.config_text, more, /*was=*/nullptr);
    if (made.model.leaves.size() <= out.model.leaves.size() || !has_all(tree, made.model))
      return false;
    out = std::move(made);
    return true;
  });
  take_wide(family, tree, out);
  if (!dtype_of_config(config)) take_dtypes(tree, out);
}

// The errors of layouts that a model doesn't have.
struct Refusals {
  std::optional<Error> first;
  std::optional<Error> here;  // of a scheme whose names the tree has

  void add(const Error& error, const std::string& scheme, const Catalog& tree) {
    if (!first) first = error;
    const auto is_its = [&](const SchemeSummary& named) { return named.name == scheme; };
    if (!here && std::ranges::any_of(schemes_of_names(tree), is_its)) here = error;
  }
};

}  // namespace

Described describe_model(const Catalog& tree, const std::string& config_text,
                         const std::string& config_name, MappingOptions mapping, const Model* was) {
  const Json config = parse_json(config_text, config_name);
  const FamilyFile family = family_of(config, config_name, mapping.files);
  mapping.dialect = MappingOptions().dialect;
  mapping.prefix.clear();
  mapping.dtype.reset();
  mapping.keep_dtype = false;
  mapping.casts.clear();
  mapping.include.clear();
  mapping.exclude.clear();
  mapping.drop.clear();
  std::optional<Described> best;
  std::size_t most = 0;
  Refusals refused;
  for (const MappingOptions& options : layouts_of(family, mapping)) {
    try {
      Described out = describe_in(family, config, config_text, options, was);
      if (has_all(tree, out.model)) {
        if (was == nullptr) take_from_tree(family, config, tree, options, out);
        return out;
      }
      const std::size_t found = count_found(tree, out.model);
      const bool fewer = best && out.model.leaves.size() < best->model.leaves.size();
      if (out.model.keeps_codes || (best && (found < most || (found == most && !fewer)))) continue;
      most = found;
      best = std::move(out);
    } catch (const Error& error) {  // an error if every scheme throws one
      if (error.code() == ErrorCode::internal) throw;
      if (!keeps_codes(options.options)) refused.add(error, options.scheme, tree);
    }
  }
  if (!best) throw Error(*refused.first);
  if (most == 0 && refused.here) throw Error(*refused.here);
  return *std::move(best);
}

Described describe_numbers(const Catalog& tree, std::string& config_text,
                           const std::string& config_name, const MappingOptions& mapping) {
  Described out = describe_model(tree, config_text, config_name, mapping);
  if (!was_coded(out.model)) return out;
  config_text = without_codes(config_text, config_name);
  return describe_model(tree, config_text, config_name, mapping);
}

}  // namespace hfshard
