#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/files.h"
#include "format/formats.h"
#include "mapping/find.h"
#include "mapping/scheme_defaults.h"
#include "mapping/table.h"
#include "service/check.h"
#include "service/example.h"
#include "service/place.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

// What the user has of this family; the end of `own` if nothing.
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

void find_dialect(const FamilyFile& family, const std::string& name) {
  const MappingTable table = load_table(family);
  if (table.dialect(name) != nullptr) return;
  throw Error(ErrorCode::not_found,
              fmt::format("family {} has no dialect {}", quote(table.family), quote(name)))
      .in_file(table.path);
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
                  fmt::format("two mapping files are of family {}", quote(file.family)))
          .in_file(path);
    }
  };
  for (const std::string& path : asked) add(path, true);
  if (directory.empty()) return out;
  for (const std::string& name : list_directory(directory)) {
    if (name.ends_with(".json")) add(join_path(directory, name), false);
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
std::vector<SchemeSummary> list_dialects() { return known_dialects(); }

FamilyRules show_mapping(const FamilyChoice& choice, bool stacked, const std::string& scheme,
                         const std::string& dialect) {
  const FamilyFile family = chosen_family(choice);
  MappingOptions names;
  names.scheme = scheme;
  names.dialect = dialect;
  if (!has_rules(names)) {
    throw Error(ErrorCode::usage, "--scheme hf has no rules: names and shapes are as stored")
        .hint("--dialect modules has rules");
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

CheckReport check_mapping(const SourceName& source, const MappingOptions& options) {
  const StorePath place = find_place(source);
  if (const std::optional<NameList> names = open_names(place))
    return check_mapping(*names, options);
  const std::unique_ptr<Checkpoint> opened = open_source(place);
  CheckReport out = check_mapping(opened->catalog(), place, options);
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
