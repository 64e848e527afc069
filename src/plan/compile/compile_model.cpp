#include "plan/compile/compile_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "mapping/resolve/bindings.h"
#include "mapping/resolve/find.h"
#include "mapping/resolve/first_layers.h"
#include "mapping/resolve/load_words.h"
#include "mapping/tables/scheme_defaults.h"
#include "plan/compile/steps.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kHfScheme = "hf";

Json config_of(const Catalog& catalog) {
  if (catalog.config_text.empty()) {
    throw Error(ErrorCode::not_found, "the source lacks config.json, which names the family")
        .in_file(catalog.location)
        .hint("pass --config DIR of the model, or --scheme hf to keep names and shapes");
  }
  return parse_json(catalog.config_text, config_path(catalog.location));
}

// Options select parts of a model, but --scheme hf takes all of it.
void refuse_options(const MappingOptions& options) {
  for (const auto& [name, value] : options.options) {
    if (!releases_of(name).empty()) continue;  // belongs to the source's tree
    const std::string_view kind = value == "true" ? "optional part" : "option";  // of --with
    throw Error(ErrorCode::usage, fmt::format("--scheme hf has no {} {}", kind, quote(name)))
        .hint("it keeps every tensor as stored");
  }
}

// Codes stay codes with --dtype keep, if the loader has a place for their scales.
MappingOptions as_stored(const MappingOptions& asked, const Scheme& scheme,
                         const Catalog& catalog) {
  MappingOptions out = asked;
  const auto is_scale = [&](const TensorInfo& info) {
    return glob_match(scheme.keeps_codes, info.name);
  };
  if (asked.dtype && keeps_codes(asked.options)) {
    throw Error(ErrorCode::usage, fmt::format("--option {}={} can't be used with --dtype {}",
                                              kCodesOption, kKept, to_string(*asked.dtype)))
        .hint("leave out one of the two");
  }
  if (asked.keep_dtype && !scheme.keeps_codes.empty() &&
      std::ranges::any_of(catalog.tensors, is_scale))
    out.options.emplace(kCodesOption, kKept);
  return out;
}

CompiledModel compile_family(const Catalog& catalog, const MappingOptions& asked,
                             const Json& stored_config, const MappingTable& table) {
  const std::optional<Json> plain = without_leftover(stored_config, catalog);
  const Json& config = plain ? *plain : stored_config;
  const Scheme& scheme = scheme_of(table, asked);
  const MappingOptions options = as_stored(in_layout(asked, scheme), scheme, catalog);
  if (scheme.rest.empty()) {
    check_options(table, options.options);
  } else {
    refuse_options(options);
  }
  check_quantization(config, catalog.location);
  ModelRules rules(table, scheme, config, options, shapes_of(catalog));
  const Bindings& bindings = rules.bindings();

  ModelBuilder builder(catalog, options);
  builder.leave_out(rules.left_out(), rules.why_left_out());
  CompiledModel& model = builder.model();
  model.family = table.family;
  model.stacked = options.stacked;
  model.keeps_codes = keeps_codes(options.options);
  builder.rename_leaves(rules.resolved().renames);
  compile_rules(table, scheme, bindings, rules.resolved(), builder);
  if (!scheme.axis_rules.is_null() && scheme.rest.empty())
    model.axis_rules = dump_json(scheme.axis_rules);
  for (std::string& note : texts_that_hold(scheme.notes, bindings))
    model.notes.push_back(std::move(note));
  if (plain) {
    model.notes.emplace_back(
        "no tensor is quantized, so hfshard ignores quantization_config in config.json");
  }
  LoadAdvice advice = load_advice(scheme, bindings, rules.uncut(), options.stacked);
  model.model_names = std::move(advice.names);
  model.load_words = std::move(advice.words);
  model.load_note = std::move(advice.note);
  model.warnings = std::move(advice.warnings);
  // The remaining layers can be unquantized ones, or only the cache is quantized.
  const bool quantized = !scheme.rest.empty() || model.keeps_codes ||
                         std::ranges::any_of(model.transfers, [](const Transfer& transfer) {
                           return transfer.decode != nullptr;
                         });
  const Json stated = quantized ? rules.config() : without_quantization(rules.config());
  if (plain || rules.is_cut() || !(stated == rules.config()))
    model.config_text = dump_json_pretty(stated);
  if (!scheme.rest.empty()) compile_rest(table, bindings, rules.config(), builder);
  return builder.finish();
}

// Refuses flags for names that are the model's own.
void refuse_name_flags(const MappingOptions& options) {
  const bool prefix = !options.prefix.empty();
  if (!prefix && options.dialect == MappingOptions().dialect) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} requires --scheme hf, which keeps the model's own names",
                          prefix ? "--prefix" : "--dialect"))
      .hint("--to dcp and --to safetensors imply it");
}

CompiledModel compile_names(const Catalog& catalog, const MappingOptions& options) {
  refuse_options(options);
  if (options.num_layers) {
    throw Error(ErrorCode::usage, "--scheme hf doesn't know layers, so it can't use --num-layers")
        .hint("pass --include to select tensors by name");
  }
  ModelBuilder builder(catalog, options);
  builder.model().family = kNoFamily;
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
  if (location.ends_with(".json")) return location;
  constexpr std::array<std::string_view, 4> kFiles{".safetensors", ".bin", ".pt", ".pth"};
  const bool file =
      std::ranges::any_of(kFiles, [&](std::string_view end) { return location.ends_with(end); });
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
        fmt::format("the mapping of family {} doesn't match config.json", quote(asked->family)))
        .in_file(config_path(location))
        .by_rule(asked->name + "#/match")
        .hint("check the model types and architectures in the file's `match`");
  }
  if (found) return *found;
  const Json* model_type = config.find("model_type");
  const bool named = model_type != nullptr && model_type->is_string();
  const std::vector<std::string> known = known_model_types();
  const std::vector<std::string> near =
      named ? near_names(model_type->as_string(), known) : std::vector<std::string>{};
  throw Error(ErrorCode::unsupported,
              named ? fmt::format("no family has model_type {}", quote(model_type->as_string()))
                    : std::string("config.json has no model_type"))
      .in_file(config_path(location))
      .hint(fmt::format(
          "{}pass --scheme hf to keep names and shapes, or --mapping FILE to add a family "
          "(tutorial: mappings/README.md); hfshard mappings list shows the families",
          near.empty() ? "" : fmt::format("did you mean {}? ", join(near, " or "))));
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
      .hint("pass --dialect files to keep the source's names");
}

MappingOptions in_layout(const MappingOptions& asked, const Scheme& scheme) {
  MappingOptions out = asked;
  out.stacked = asked.stacked && scheme.stacks();
  return out;
}

std::vector<std::string> texts_that_hold(const std::vector<Conditional>& list,
                                         const Bindings& bindings) {
  std::vector<std::string> out;
  for (const Conditional& item : list) {
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
  } catch (const Error& error) {  // its hint is the requested scheme
    if (options.scheme != kHfScheme || error.code() == ErrorCode::bad_input) throw;
    throw Error(error.code(), error.sentence())
        .in_file(error.file())
        .hint("pass --dialect files to keep the source's names, which works without a family");
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
