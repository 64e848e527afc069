#include "plan/compile/compile_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "mapping/find.h"
#include "mapping/first_layers.h"
#include "mapping/load_words.h"
#include "mapping/model_names.h"
#include "mapping/scheme_defaults.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kHfScheme = "hf";

Json config_of(const Catalog& catalog) {
  if (catalog.config_text.empty()) {
    throw Error(ErrorCode::not_found, "the source has no config.json, which names the family")
        .in_file(catalog.location)
        .hint("put config.json beside the tensors, or use --scheme hf to keep names and shapes");
  }
  return parse_json(catalog.config_text, config_path(catalog.location));
}

// Which parts of a model there are is for schemes that do not take all of it.
void refuse_options(const MappingOptions& options) {
  if (options.options.empty()) return;
  throw Error(ErrorCode::usage,
              fmt::format("--scheme hf has no option {}", quote(options.options.begin()->first)))
      .hint("it takes every tensor as it is stored");
}

CompiledModel compile_family(const Catalog& catalog, const MappingOptions& asked,
                             const Json& config, const MappingTable& table) {
  const Scheme& scheme = scheme_of(table, asked);
  const MappingOptions options = in_layout(asked, scheme);
  if (scheme.rest.empty()) {
    check_options(table, options.options);
  } else {
    refuse_options(options);
  }
  ModelRules rules(table, scheme, config, options, shapes_of(catalog));
  const Bindings& bindings = rules.bindings();
  check_quantisation(table, config, catalog.location);

  ModelBuilder builder(catalog, options);
  builder.leave_out(rules.left_out(), rules.why_left_out());
  CompiledModel& model = builder.model();
  model.family = table.family;
  model.stacked = options.stacked;
  builder.rename_leaves(rules.resolved().renames);
  compile_rules(table, scheme, bindings, rules.resolved(), builder);
  if (!scheme.axis_rules.is_null() && scheme.rest.empty())
    model.axis_rules = dump_json(scheme.axis_rules);
  model.notes = texts_that_hold(scheme.notes, bindings);
  model.model_names = names_that_fit(table, scheme, rules.uncut());
  model.load_words = load_words(scheme, bindings, options.stacked, model.model_names,
                                rules.is_cut() ? options.num_layers : std::nullopt);
  if (rules.is_cut()) model.config_text = dump_json_pretty(rules.config());
  if (!scheme.rest.empty()) compile_rest(table, bindings, rules.config(), builder);
  return builder.finish();
}

// What is only for names that are the model's own.
void refuse_name_flags(const MappingOptions& options) {
  const bool prefix = !options.prefix.empty();
  if (!prefix && options.dialect == MappingOptions().dialect) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} is for --scheme hf, whose names are the model's own",
                          prefix ? "--prefix" : "--dialect"))
      .hint("--to dcp and --to safetensors imply it");
}

CompiledModel compile_names(const Catalog& catalog, const MappingOptions& options) {
  refuse_options(options);
  if (options.num_layers) {
    throw Error(ErrorCode::usage, "--scheme hf knows no layers, so it takes no --num-layers")
        .hint("--include takes tensors by name");
  }
  ModelBuilder builder(catalog, options);
  builder.model().family = std::string(kHfScheme);
  compile_hf(builder);
  return builder.finish();
}

}  // namespace

CompiledModel proved(const Catalog& catalog, CompiledModel model) {
  const std::vector<CheckFinding> findings = prove(catalog, model);
  if (!findings.empty()) {
    throw Error(ErrorCode::bad_input, findings.front().what)
        .in_tensor(findings.front().tensor)
        .by_rule(findings.front().rule);
  }
  return model;
}

std::string config_path(const std::string& location) {
  const bool file = location.ends_with(".safetensors");
  return join_path(file ? parent_path(location) : location, "config.json");
}

FamilyFile family_of(const Json& config, const std::string& location,
                     const std::vector<MappingFile>& own) {
  const std::optional<FamilyFile> found = find_family(config, own);
  const auto asked = std::ranges::find(own, true, &MappingFile::asked);
  const bool is_asked = found && std::ranges::any_of(own, [&](const MappingFile& file) {
                          return file.asked && file.family == found->name;
                        });
  if (asked != own.end() && !is_asked) {
    throw Error(
        ErrorCode::bad_input,
        fmt::format("the mapping of family {} does not match config.json", quote(asked->family)))
        .in_file(config_path(location))
        .by_rule(asked->name + "#/match")
        .hint("the file's `match` lists the model types and architectures that it is for");
  }
  if (found) return *found;
  const Json* model_type = config.find("model_type");
  const bool named = model_type != nullptr && model_type->is_string();
  const std::vector<std::string> known = known_model_types();
  const std::vector<std::string> near =
      named ? near_names(model_type->as_string(), known) : std::vector<std::string>{};
  throw Error(ErrorCode::unsupported,
              named ? fmt::format("no family knows model_type {}", quote(model_type->as_string()))
                    : std::string("config.json has no model_type"))
      .in_file(config_path(location))
      .hint(
          fmt::format("{}hfshard mappings list names those that are known; --scheme hf keeps names "
                      "and shapes and needs no family",
                      near.empty() ? "" : fmt::format("near are {}; ", join(near, ", "))));
}

const Scheme& scheme_of(const MappingTable& table, const MappingOptions& options) {
  if (const Scheme* scheme = table.scheme(options.scheme)) return *scheme;
  std::vector<std::string> names{std::string(kHfScheme)};
  if (options.scheme != kHfScheme) {
    for (const Scheme& scheme : table.schemes) names.push_back(scheme.name);
    throw Error(ErrorCode::unsupported, fmt::format("family {} has no scheme {}",
                                                    quote(table.family), quote(options.scheme)))
        .hint("its schemes are " + join(names, ", "));
  }
  if (const Scheme* dialect = table.dialect(options.dialect)) return *dialect;
  throw Error(ErrorCode::unsupported, fmt::format("family {} has no dialect {}",
                                                  quote(table.family), quote(options.dialect)))
      .hint("--dialect files keeps the names of the source");
}

MappingOptions in_layout(const MappingOptions& asked, const Scheme& scheme) {
  MappingOptions out = asked;
  out.stacked = asked.stacked && scheme.stacks();
  return out;
}

std::vector<std::string> texts_that_hold(const std::vector<Note>& list, const Bindings& bindings) {
  std::vector<std::string> out;
  for (const Note& item : list) {
    if (item.when.truth(bindings)) out.push_back(item.text);
  }
  return out;
}

CompiledModel compile_unproved(const Catalog& catalog, const MappingOptions& options) {
  if (!has_rules(options)) return compile_names(catalog, options);
  if (options.scheme != kHfScheme) refuse_name_flags(options);
  Json config;
  std::optional<FamilyFile> family;
  try {
    config = config_of(catalog);
    family = family_of(config, catalog.location, options.files);
  } catch (const Error& error) {  // whose hint is the scheme that was asked for
    if (options.scheme != kHfScheme || error.code() == ErrorCode::bad_input) throw;
    throw Error(error.code(), error.sentence())
        .in_file(error.file())
        .hint("--dialect files keeps the names of the source, and needs no family");
  }
  return compile_family(catalog, options, config, load_table(*family));
}

CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options) {
  return proved(catalog, compile_unproved(catalog, options));
}

CompiledModel compile_model(const Catalog& catalog, const MappingOptions& options,
                            const MappingTable& table) {
  return proved(catalog, compile_family(catalog, options, config_of(catalog), table));
}

}  // namespace hfshard
