#include "mapping/scheme_defaults.h"

#include <algorithm>

#include "base/json.h"
#include "mapping/expand.h"

namespace hfshard {
namespace {

constexpr std::string_view kMain = "maxtext";
constexpr std::string_view kNames = "hf";

const Json* find_scheme(std::string_view name) {
  return common_mappings().at("schemes").find(name);
}

const Json& scheme_or_main(std::string_view name) {
  const Json* found = find_scheme(name);
  return found != nullptr ? *found : *find_scheme(kMain);
}

// What the loader of a scheme calls something; empty if it does not know it.
std::string word_of(std::string_view scheme, std::string_view key) {
  const Json* found = find_scheme(scheme);
  const Json* word = found == nullptr ? nullptr : found->at("loader").find(std::string(key));
  return word == nullptr ? std::string() : word->as_string();
}

// Of another scheme, which it is told of under `rest`.
bool is_dialect(const Json& scheme) { return scheme.find("rest") != nullptr; }

}  // namespace

std::vector<SchemeSummary> known_schemes() {
  std::vector<SchemeSummary> out;
  for (const auto& [name, scheme] : common_mappings().at("schemes").as_object()) {
    if (is_dialect(scheme)) continue;
    out.push_back({name, scheme.at("about").as_string(), !word_of(name, "stacked").empty()});
  }
  // Not of std::ranges: clang 14 does not compile its result.
  std::stable_partition(out.begin(), out.end(),
                        [](const SchemeSummary& one) { return one.name == kMain; });
  out.push_back({std::string(kNames), "the source's own", false});
  return out;
}

std::vector<SchemeSummary> known_dialects() {
  std::vector<SchemeSummary> out{{MappingOptions().dialect, "as the source's files", false}};
  for (const auto& [name, scheme] : common_mappings().at("schemes").as_object()) {
    if (is_dialect(scheme)) out.push_back({name, scheme.at("about").as_string(), false});
  }
  return out;
}

std::string asked_dialect(const MappingOptions& options) {
  const bool other = options.dialect != MappingOptions().dialect;
  return options.scheme == kNames && other ? options.dialect : std::string();
}

bool has_rules(const MappingOptions& options) {
  return options.scheme != kNames || !asked_dialect(options).empty();
}

bool scheme_stacks(std::string_view name) {
  const std::vector<SchemeSummary> known = known_schemes();
  const auto found = std::ranges::find(known, name, &SchemeSummary::name);
  return found == known.end() || found->stacks;
}

std::string default_axis_rules(std::string_view scheme) {
  return dump_json(scheme_or_main(scheme).at("axis_rules"));
}

TreeExtras tree_extras(std::string_view scheme) {
  return {word_of(scheme, "step"), word_of(scheme, "empty")};
}

std::string loader_sign(std::string_view scheme) { return word_of(scheme, "sign"); }

LoaderOptions loader_options(std::string_view scheme) {
  return {word_of(scheme, "path"),  word_of(scheme, "format"),   word_of(scheme, "stacked"),
          word_of(scheme, "model"), word_of(scheme, "override"), word_of(scheme, "layers")};
}

std::string stacked_flag(std::string_view scheme) {
  const std::string own = word_of(scheme, "stacked");
  return own.empty() ? word_of(kMain, "stacked") : own;
}

}  // namespace hfshard
