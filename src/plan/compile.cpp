#include "plan/compile.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "mapping/find.h"
#include "plan/compile_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kHfScheme = "hf";

// Where the config of a source stands, as errors name it.
std::string config_path(const std::string& location) {
  const bool file = location.ends_with(".safetensors");
  return join_path(file ? parent_path(location) : location, "config.json");
}

Json read_config(const Catalog& catalog) {
  if (catalog.config_text.empty()) {
    throw Error(ErrorCode::not_found, "the source has no config.json, which names the family")
        .in_file(catalog.location)
        .hint("put config.json beside the tensors, or use --scheme hf to keep names and shapes");
  }
  return parse_json(catalog.config_text, config_path(catalog.location));
}

const FamilyFile& family_of(const Json& config, const std::string& location) {
  if (const FamilyFile* file = find_family(config)) return *file;
  const Json* model_type = config.find("model_type");
  const bool named = model_type != nullptr && model_type->is_string();
  const std::vector<std::string> known = known_model_types();
  const std::vector<std::string> near =
      named ? near_names(model_type->as_string(), known) : std::vector<std::string>{};
  throw Error(ErrorCode::unsupported,
              named ? fmt::format("no family knows model_type {}", quote(model_type->as_string()))
                    : std::string("config.json has no model_type"))
      .in_file(config_path(location))
      .hint(fmt::format("{} {}; --scheme hf keeps names and shapes and needs no family",
                        near.empty() ? "known model types are" : "near model types are",
                        join(near.empty() ? known : near, ", ")));
}

const Scheme& scheme_of(const MappingTable& table, const std::string& name) {
  if (const Scheme* scheme = table.scheme(name)) return *scheme;
  std::vector<std::string> names{std::string(kHfScheme)};
  for (const Scheme& scheme : table.schemes) names.push_back(scheme.name);
  throw Error(ErrorCode::unsupported,
              fmt::format("family {} has no scheme {}", quote(table.family), quote(name)))
      .hint("its schemes are " + join(names, ", "));
}

void check_options(const MappingTable& table, const MappingOptions& options) {
  for (const auto& [name, value] : options.options) {
    if (std::ranges::find(table.options, name) != table.options.end()) continue;
    throw Error(ErrorCode::usage,
                fmt::format("family {} has no option {}", quote(table.family), quote(name)))
        .hint(table.options.empty() ? std::string("it has none")
                                    : "its options are " + join(table.options, ", "));
  }
}

std::vector<std::string> texts_that_hold(const std::vector<Conditional>& list,
                                         const Bindings& bindings) {
  std::vector<std::string> out;
  for (const Conditional& item : list) {
    if (item.when.truth(bindings)) out.push_back(item.text);
  }
  return out;
}

CompiledModel compile_family(const Catalog& catalog, const MappingOptions& options,
                             const Json& config, const FamilyFile& family) {
  const MappingTable table = load_table(family);
  const Scheme& scheme = scheme_of(table, options.scheme);
  check_options(table, options);
  Bindings bindings(table, config, options.options,
                    [&](std::string_view name) { return catalog.find(name).has_value(); });
  const ResolvedModel resolved = resolve(scheme, bindings, options.stacked);

  ModelBuilder builder(catalog, options);
  CompiledModel& model = builder.model();
  model.family = table.family;
  model.stacked = options.stacked;
  compile_rules(table, scheme, bindings, resolved, builder);
  model.notes = texts_that_hold(table.notes, bindings);
  model.model_names = texts_that_hold(table.model_names, bindings);
  return builder.finish();
}

CompiledModel compile_names(const Catalog& catalog, const MappingOptions& options) {
  if (!options.options.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("--scheme hf has no option {}", quote(options.options.begin()->first)));
  }
  ModelBuilder builder(catalog, options);
  builder.model().family = std::string(kHfScheme);
  compile_hf(builder);
  return builder.finish();
}

CompiledModel proved(const Catalog& catalog, CompiledModel model) {
  const std::vector<CheckFinding> findings = prove(catalog, model);
  if (!findings.empty()) {
    throw Error(ErrorCode::bad_input, findings.front().what)
        .in_tensor(findings.front().tensor)
        .by_rule(findings.front().rule);
  }
  return model;
}

// Marks the names that a resolved mapping uses.
class NameMatcher {
 public:
  NameMatcher(const NameList& list, const MappingTable& table, const Bindings& bindings)
      : names_(list.names), table_(table), bindings_(bindings), used_(list.names.size(), false) {}

  void match(const ResolvedModel& model, NameCheck& out) {
    std::set<std::string_view> leaves;
    for (const ResolvedRule& rule : model.rules) {
      leaves.insert(rule.target);
      for (const std::string& name : rule.sources) need(name, rule.rule->pointer, out);
      if (std::ranges::find(out.rules, rule.rule->pointer) == out.rules.end())
        out.rules.push_back(rule.rule->pointer);
    }
    for (const ResolvedFill& fill : model.fills) leaves.insert(fill.target);
    out.leaves = leaves.size();
    for (const ResolvedDrop& drop : model.drops) {
      for (const std::string& glob : drop.sources) leave(glob, *drop.rule, out);
    }
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!used_[i])
        out.findings.push_back({names_[i], {}, "no rule and no drop matches the name"});
    }
  }

 private:
  void need(const std::string& name, const std::string& pointer, NameCheck& out) {
    const auto found = std::ranges::lower_bound(names_, name);
    if (found == names_.end() || *found != name) {
      out.findings.push_back({name, pointer, "the index lacks a tensor that the rule needs"});
      return;
    }
    used_[static_cast<std::size_t>(found - names_.begin())] = true;
    // Which tensors are coded is in the headers; a scale that is there is taken for one.
    for (const DecodeRule& rule : table_.decodes) {
      if (rule.name && !glob_match(*rule.name, name)) continue;
      if (rule.when && !rule.when->truth(bindings_)) continue;
      const auto scale = std::ranges::lower_bound(names_, rule.scale_name(name));
      if (scale != names_.end() && *scale == rule.scale_name(name))
        used_[static_cast<std::size_t>(scale - names_.begin())] = true;
    }
  }

  void leave(const std::string& glob, const DropRule& rule, NameCheck& out) {
    const bool plain = glob.find('*') == std::string::npos;
    const auto first = plain ? std::ranges::lower_bound(names_, glob) : names_.begin();
    for (auto name = first; name != names_.end() && (!plain || *name == glob); ++name) {
      if (!plain && !glob_match(glob, *name)) continue;
      used_[static_cast<std::size_t>(name - names_.begin())] = true;
      out.dropped.push_back({*name, rule.pointer, rule.why});
    }
  }

  const std::vector<std::string>& names_;
  const MappingTable& table_;
  const Bindings& bindings_;
  std::vector<bool> used_;
};

}  // namespace

NameCheck check_names(const NameList& list, const MappingOptions& options) {
  const Json config = parse_json(list.config_text, config_path(list.location));
  const MappingTable table = load_table(family_of(config, list.location));
  check_options(table, options);
  Bindings bindings(table, config, options.options, [&](std::string_view name) {
    return std::ranges::binary_search(list.names, name);
  });
  const ResolvedModel resolved =
      resolve(scheme_of(table, options.scheme), bindings, options.stacked);
  NameCheck out;
  out.family = table.family;
  NameMatcher(list, table, bindings).match(resolved, out);
  out.notes = texts_that_hold(table.notes, bindings);
  return out;
}

CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options) {
  if (options.scheme == kHfScheme) return proved(catalog, compile_names(catalog, options));
  const Json config = read_config(catalog);
  return proved(catalog,
                compile_family(catalog, options, config, family_of(config, catalog.location)));
}

CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options,
                            const FamilyFile& family) {
  return proved(catalog, compile_family(catalog, options, read_config(catalog), family));
}

}  // namespace hfshard
