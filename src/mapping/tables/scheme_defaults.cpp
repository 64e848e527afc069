#include "mapping/tables/scheme_defaults.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "mapping/tables/expand.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

constexpr std::string_view kMain = "maxtext";
constexpr std::string_view kNames = "hf";
// First keys of state that trainers save next to parameters. An average (EMA) isn't included.
constexpr std::array<std::string_view, 10> kTrainingKeys = {
    "dataloader", "loss_scaler", "lr_scheduler", "lr_schedulers", "rng",
    "rng_state",  "rngs",        "scheduler",    "step",          "train_state"};

const Json* find_scheme(std::string_view name) {
  return common_mappings().at("schemes").find(name);
}

const Json& scheme_or_main(std::string_view name) {
  const Json* found = find_scheme(name);
  return found != nullptr ? *found : *find_scheme(kMain);
}

// Returns the loader's word for something. Empty if the loader doesn't have one.
std::string word_of(std::string_view scheme, std::string_view key) {
  const Json* found = find_scheme(scheme);
  const Json* word = found == nullptr ? nullptr : found->at("loader").find(std::string(key));
  return word == nullptr ? std::string() : word->as_string();
}

// A dialect belongs to another scheme, which `rest` names.
bool is_dialect(const Json& scheme) { return scheme.find("rest") != nullptr; }

constexpr std::size_t kShortCommit = 7;  // as git shortens them

}  // namespace

std::vector<SchemeSummary> known_schemes() {
  std::vector<SchemeSummary> out;
  for (const auto& [name, scheme] : common_mappings().at("schemes").as_object()) {
    if (is_dialect(scheme)) continue;
    out.push_back({name, scheme.at("about").as_string(), !word_of(name, "stacked").empty()});
  }
  // clang 14 doesn't compile the result of the std::ranges version.
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

bool is_training_state(std::string_view name) {
  const std::string_view top = name.substr(0, name.find('.'));
  if (top.starts_with("optim") || top.starts_with("opt_")) return true;
  return std::ranges::find(kTrainingKeys, top) != kTrainingKeys.end();
}

std::string loader_sign(std::string_view scheme) { return word_of(scheme, "sign"); }

std::string former_name(std::string_view scheme, std::string name) {
  const std::string pairs = word_of(scheme, "former");
  if (pairs.empty()) return name;
  for (const std::string& pair : split(pairs, ' ')) {
    const std::size_t equals = pair.find('=');
    const std::string_view now = std::string_view(pair).substr(0, equals);
    const std::size_t at = name.find(now);
    if (at == std::string::npos || (at != 0 && name[at - 1] != '.')) continue;
    return name.replace(at, now.size(), pair, equals + 1);
  }
  return name;
}

bool is_computed_buffer(std::string_view name) {
  const std::vector<Json>& globs = common_mappings().at("buffers").at("names").as_array();
  return std::ranges::any_of(globs, [&](const Json& glob) {
    return glob_match(glob.as_string(), name) || glob_match("*." + glob.as_string(), name);
  });
}

bool loader_takes(std::string_view scheme, const std::vector<std::string>& names) {
  const std::string forms = word_of(scheme, "loads");
  if (forms.empty()) return true;
  const std::vector<std::string> loads = split(forms, ' ');
  const std::string refused = word_of(scheme, "refuses");
  const auto is_sign = [&](const std::string& name) {
    return std::ranges::find(loads, name) != loads.end();
  };
  const auto is_refused = [&](const std::string& name) { return glob_match(refused, name); };
  return std::ranges::any_of(names, is_sign) && std::ranges::none_of(names, is_refused);
}

std::vector<std::string> releases_of(std::string_view scheme) {
  const std::string words = word_of(scheme, "releases");
  return words.empty() ? std::vector<std::string>() : split(words, ' ');
}

std::string known_release(std::string_view scheme, const std::string& asked) {
  const std::vector<std::string> all = releases_of(scheme);
  if (std::ranges::find(all, asked) != all.end()) return asked;
  std::vector<std::string> shown = all;
  for (const std::string& pair : split(word_of(scheme, "commits"), ' ')) {
    const std::size_t equals = pair.find('=');
    const std::string commit = pair.substr(0, equals);
    if (asked.size() >= kShortCommit && commit.starts_with(asked)) return pair.substr(equals + 1);
    shown.push_back(commit.substr(0, kShortCommit));
  }
  throw Error(ErrorCode::usage, fmt::format("hfshard doesn't know the tree of {} {}",
                                            word_of(scheme, "name"), quote(asked)))
      .hint(fmt::format("the releases are {}; {} is the newest tested one", join(shown, ", "),
                        all.front()));
}

std::string loader_name(std::string_view scheme,
                        const std::map<std::string, std::string>& options) {
  const std::vector<std::string> releases = releases_of(scheme);
  std::string name = word_of(scheme, "name");
  if (releases.empty()) return name;
  const auto asked = options.find(std::string(scheme));
  return name + ' ' + (asked == options.end() ? releases.front() : asked->second);
}

LoaderOptions loader_options(std::string_view scheme) {
  LoaderOptions out;
  for (const auto& [key, word] :
       {std::pair{"name", &out.name}, std::pair{"path", &out.path},
        std::pair{"state_path", &out.state_path}, std::pair{"with_state", &out.with_state},
        std::pair{"always", &out.always}, std::pair{"assets", &out.assets},
        std::pair{"format", &out.format}, std::pair{"stacked", &out.stacked},
        std::pair{"model", &out.model}, std::pair{"with_model", &out.with_model},
        std::pair{"override", &out.override_model}}) {
    *word = word_of(scheme, key);
  }
  for (const auto& [key, list] :
       {std::pair{"run", &out.run}, std::pair{"fixed", &out.fixed}, std::pair{"free", &out.free},
        std::pair{"computed", &out.computed}}) {
    if (const std::string words = word_of(scheme, key); !words.empty()) *list = split(words, ' ');
  }
  return out;
}

std::string stacked_flag(std::string_view scheme) {
  const std::string own = word_of(scheme, "stacked");
  return own.empty() ? word_of(kMain, "stacked") : own;
}

}  // namespace hfshard
