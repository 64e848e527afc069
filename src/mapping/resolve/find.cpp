#include "mapping/resolve/find.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/text.h"
#include "mapping/tables/table.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Keys for the model's class: transformers has a list, diffusers one name.
constexpr std::array<const char*, 2> kClassKeys = {"architectures", "_class_name"};

// The names by which one family is found.
struct Match {
  const FamilyFile* file = nullptr;
  std::vector<std::string> model_types;
  std::vector<std::string> architectures;
};

std::vector<std::string> texts(const Json* json) {
  std::vector<std::string> out;
  if (json == nullptr) return out;
  if (json->is_string()) out.push_back(json->as_string());
  if (!json->is_array()) return out;
  for (const Json& text : json->as_array()) {
    if (text.is_string()) out.push_back(text.as_string());
  }
  return out;
}

Match match_of(const FamilyFile& file) {
  const Json match = file.is_built_in() ? parse_json(file.match, file.path)
                                        : parse_json(file.text, file.path).at("match");
  return {&file, texts(match.find("model_type")), texts(match.find("architectures"))};
}

bool names_any(const std::vector<std::string>& names, const Json* wanted) {
  return std::ranges::any_of(texts(wanted), [&](const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  });
}

bool is_replaced(std::string_view family, std::span<const MappingFile> own) {
  return std::ranges::find(own, family, &MappingFile::family) != own.end();
}

FamilyFile file_of(const MappingFile& own) {
  return {own.family, own.path.empty() ? own.name : own.path, own.text};
}

// Parsed once, since reading every family file for each question takes milliseconds.
const std::vector<Match>& matches() {
  static const std::vector<Match> kAll = [] {
    std::vector<Match> out;
    for (const FamilyFile& file : embedded_families()) out.push_back(match_of(file));
    return out;
  }();
  return kAll;
}

const FamilyFile* family_with(std::vector<std::string> Match::*names, std::string_view wanted) {
  for (const Match& match : matches()) {
    if (std::ranges::find(match.*names, wanted) != (match.*names).end()) return match.file;
  }
  return nullptr;
}

}  // namespace

const FamilyFile* find_family(const Json& config) {
  const Json* model_type = config.find("model_type");
  if (model_type != nullptr && model_type->is_string()) {
    if (const FamilyFile* file = family_with(&Match::model_types, model_type->as_string()))
      return file;
  }
  for (const char* key : kClassKeys) {
    for (const std::string& name : texts(config.find(key))) {
      if (const FamilyFile* file = family_with(&Match::architectures, name)) return file;
    }
  }
  return nullptr;
}

std::optional<FamilyFile> find_family(const Json& config, std::span<const MappingFile> own) {
  for (const char* key : {"model_type", kClassKeys[0], kClassKeys[1]}) {
    for (const MappingFile& file : own) {
      const FamilyFile family = file_of(file);
      const Match match = match_of(family);
      if (names_any(*key == 'm' ? match.model_types : match.architectures, config.find(key)))
        return family;
    }
  }
  const FamilyFile* built_in = find_family(config);
  if (built_in == nullptr || is_replaced(built_in->name, own)) return std::nullopt;
  return *built_in;
}

std::string config_doubt(const Json& config, std::span<const MappingFile> own) {
  const Json* model_type = config.find("model_type");
  const Json* architectures = config.find("architectures");
  if (model_type == nullptr || architectures == nullptr) return {};
  const auto family_by = [&](const char* key, const Json& value) {
    Json alone;
    alone[key] = value;
    return find_family(alone, own);
  };
  const auto one = family_by("model_type", *model_type);
  const auto other = family_by("architectures", *architectures);
  if (!other || (one && one->name == other->name)) return {};  // heads of other kinds are common
  const std::string type = quote(join(texts(model_type), ", "));
  const std::string names = quote(join(texts(architectures), ", "));
  if (!one) {
    return fmt::format("no family has the model_type {} of config.json, so {} was taken for {}",
                       type, names, other->name);
  }
  return fmt::format(
      "config.json contradicts itself: its model_type {} belongs to family {}, which hfshard uses, "
      "and its architectures {} to {}",
      type, one->name, names, other->name);
}

std::vector<FamilyFile> all_families(std::span<const MappingFile> own) {
  std::vector<FamilyFile> out;
  for (const MappingFile& file : own) out.push_back(file_of(file));
  for (const FamilyFile& file : embedded_families()) {
    if (!is_replaced(file.name, own)) out.push_back(file);
  }
  std::ranges::stable_sort(out, {}, &FamilyFile::name);
  return out;
}

MappingFile own_mapping(const std::string& path, std::string text) {
  MappingFile out;
  out.name = path.substr(path.rfind('/') + 1);
  out.text = std::move(text);
  out.path = path;
  out.family = load_table({"", out.path, out.text}).family;
  return out;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> out;
  for (const Match& match : matches())
    out.insert(out.end(), match.model_types.begin(), match.model_types.end());
  std::ranges::sort(out);
  return out;
}

FamilyFile family_by_name(std::string_view name, std::span<const MappingFile> own) {
  std::vector<std::string> names;
  for (const FamilyFile& file : all_families(own)) {
    if (file.name == name) return file;
    names.emplace_back(file.name);
  }
  for (const Match& match : matches()) {
    const auto is_name = [&](const std::string& each) { return each == name; };
    if (std::ranges::none_of(match.model_types, is_name) &&
        std::ranges::none_of(match.architectures, is_name))
      continue;
    throw Error(ErrorCode::not_found, fmt::format("hfshard has no family {}", quote(name)))
        .hint(fmt::format("models of this name belong to family {}", match.file->name));
  }
  const std::vector<std::string> near = near_names(name, names);
  throw Error(ErrorCode::not_found, fmt::format("hfshard has no family {}", quote(name)))
      .hint(near.empty() ? "the families are " + join(names, ", ")
                         : "did you mean " + join(near, " or ") + "?");
}

}  // namespace hfshard
