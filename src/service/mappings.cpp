#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "format/formats.h"
#include "mapping/resolve/find.h"
#include "mapping/tables/scheme_defaults.h"
#include "mapping/tables/table.h"
#include "service/check.h"
#include "service/example.h"
#include "service/own_names.h"
#include "service/place.h"
#include "service/step.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// Finds the user's table for this family. Returns the end of `own` if there is no such table.
auto find_own(const std::vector<MappingFile>& own, std::string_view family) {
  return std::ranges::find(own, family, &MappingFile::family);
}

FamilyInfo info_beside(const FamilyFile& file, const std::vector<MappingFile>& own) {
  return info_of_family(file, find_own(own, file.name) == own.end());
}

FamilySummary summary_of(FamilyInfo info) {
  FamilySummary out;
  out.name = std::move(info.name);
  out.model_types = std::move(info.model_types);
  out.architectures = std::move(info.architectures);
  out.schemes = std::move(info.schemes);
  out.dialects = std::move(info.dialects);
  if (info.stacked) out.layers.emplace_back("stacked");
  if (info.separate) out.layers.emplace_back("separate");
  out.proof = info.proof;
  return out;
}

// Checks a tree's export to its model, unless the options name another scheme.
PlanOptions tree_check_options(const MappingOptions& mapping, const TreeOptions& tree) {
  PlanOptions out;
  out.mapping = mapping;
  if (mapping.scheme == MappingOptions().scheme) out.mapping.scheme = "hf";
  out.mapping.flat_names = true;
  out.tree = tree;
  out.tree.step.reset();
  return out;
}

void find_dialect(const FamilyFile& family, const std::string& name) {
  const MappingTable table = load_table(family);
  if (table.dialect(name) != nullptr) return;
  throw Error(ErrorCode::not_found,
              fmt::format("family {} has no dialect {}", quote(table.family), quote(name)))
      .in_file(table.path);
}

// Returns whether a file in a directory is a family, or was meant to be one. Other JSON files
// aren't, such as the schema and the shared parts in a copy of this project's `mappings`.
bool is_family(const std::string& path) {
  constexpr std::string_view kMember = "\"family\"";
  const std::string text = read_file(path);
  try {
    const Json json = parse_json(text, path);
    return json.is_object() && json.find("family") != nullptr && json.find("match") != nullptr;
  } catch (const Error&) {  // its reader reports the error
    return text.find(kMember) != std::string::npos;
  }
}

}  // namespace

MappingFile read_mapping(const std::string& path) { return own_mapping(path, read_file(path)); }

std::vector<MappingFile> read_mappings(const std::vector<std::string>& asked,
                                       const std::string& directory) {
  std::vector<MappingFile> out;
  const auto add = [&](const std::string& path, bool is_asked) {
    MappingFile file = read_mapping(path);
    file.asked = is_asked;
    const auto same = find_own(out, file.family);
    if (same == out.end()) {
      out.push_back(std::move(file));
    } else if (is_asked == same->asked) {
      throw Error(ErrorCode::usage,
                  fmt::format("two mapping files define family {}", quote(file.family)))
          .in_file(path);
    }
  };
  for (const std::string& path : asked) add(path, true);
  if (directory.empty()) return out;
  for (const std::string& name : list_directory(directory)) {
    const std::string path = join_path(directory, name);
    if (name.ends_with(".json") && !is_directory(path) && is_family(path)) add(path, false);
  }
  return out;
}

std::vector<FamilySummary> list_mappings(const std::vector<MappingFile>& own) {
  std::vector<FamilySummary> out;
  for (const FamilyFile& file : all_families(own))
    out.push_back(summary_of(info_beside(file, own)));
  return out;
}

std::vector<SchemeSummary> list_schemes() { return known_schemes(); }

std::vector<std::string> list_releases(const std::string& scheme) { return releases_of(scheme); }

std::string find_release(const std::string& scheme, const std::string& asked) {
  return known_release(scheme, asked);
}
std::vector<SchemeSummary> list_dialects() { return known_dialects(); }

FamilyRules show_mapping(const FamilyChoice& choice, bool stacked, const std::string& scheme,
                         const std::string& dialect) {
  const FamilyFile family = chosen_family(choice);
  MappingOptions names;
  names.scheme = scheme;
  names.dialect = dialect;
  if (!has_rules(names)) {
    throw Error(ErrorCode::usage, "--scheme hf has no rules; it keeps names and shapes")
        .hint("pass --dialect modules, which has rules");
  }
  const std::string asked = asked_dialect(names);
  if (!asked.empty()) find_dialect(family, asked);
  const Json config = example_config(family, choice.config_text, choice.config_name, choice.own);
  ShownFamily shown =
      show_family(family, config, stacked, choice.options, asked.empty() ? scheme : asked);
  return {std::string(family.name), std::move(shown.scheme),
          std::move(shown.dialect), shown.stacked,
          dump_json(config),        std::move(shown.rules)};
}

CheckReport check_mapping(const SourceName& source, const MappingOptions& options,
                          const TreeOptions& tree) {
  const StorePath named = find_place(source);
  refuse_unfinished_source(named);
  ReadStep step = read_step(named, source.step);
  const StorePath& place = step.place;
  if (!is_model_place(place) && tree_format(place) != nullptr) {
    CheckReport out = check_tree(place, tree_check_options(options, tree));
    out.step = step.taken;
    out.other_steps = std::move(step.others);
    return out;
  }
  MappingOptions asked = options;
  if (takes_prefix_off(options)) asked.prefix.clear();
  std::optional<NameList> list;
  if (!source.ignore_index) list = open_names(place);
  if (list) {
    OwnNames own = own_names(list->names, list->config_text, list->location, options);
    list->names = std::move(own.names);
    std::ranges::sort(list->names);
    CheckReport out = check_mapping(*list, asked);
    out.source_notes = std::move(own.notes);
    return out;
  }
  Choice choice;
  choice.files.ignore_index = source.ignore_index;
  choice.without = options.exclude;
  const std::shared_ptr<const Checkpoint> opened =
      with_own_names(open_source(place, choice), place, options);
  refuse_adapter_tensors(opened->catalog(), opened->catalog().config_text, options);
  CheckReport out = check_mapping(opened->catalog(), place, asked);
  out.source_notes = opened->catalog().notes;
  return out;
}

std::vector<CheckReport> check_mappings(const std::vector<MappingFile>& own, bool all) {
  std::vector<CheckReport> out;
  for (const FamilyFile& file : all_families(own)) {
    const auto mine = find_own(own, file.name);
    if (!all && (mine == own.end() || !mine->asked)) continue;
    std::ranges::move(check_family(file, info_beside(file, own), own), std::back_inserter(out));
  }
  return out;
}

}  // namespace hfshard
