#include "mapping/find.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

bool holds(const Json& names, std::string_view wanted) {
  if (names.is_string()) return names.as_string() == wanted;
  if (!names.is_array()) return false;
  return std::ranges::any_of(names.as_array(), [&](const Json& name) {
    return name.is_string() && name.as_string() == wanted;
  });
}

const FamilyFile* family_with(std::string_view key, std::string_view wanted) {
  for (const FamilyFile& file : embedded_families()) {
    const Json json = parse_json(file.text, file.path);
    const Json* match = json.find("match");
    const Json* names = match == nullptr ? nullptr : match->find(key);
    if (names != nullptr && holds(*names, wanted)) return &file;
  }
  return nullptr;
}

}  // namespace

const FamilyFile* find_family(const Json& config) {
  const Json* model_type = config.find("model_type");
  if (model_type != nullptr && model_type->is_string()) {
    if (const FamilyFile* file = family_with("model_type", model_type->as_string())) return file;
  }
  const Json* architectures = config.find("architectures");
  if (architectures == nullptr || !architectures->is_array()) return nullptr;
  for (const Json& name : architectures->as_array()) {
    if (!name.is_string()) continue;
    if (const FamilyFile* file = family_with("architectures", name.as_string())) return file;
  }
  return nullptr;
}

std::vector<std::string> known_model_types() {
  std::vector<std::string> out;
  for (const FamilyFile& file : embedded_families()) {
    const Json json = parse_json(file.text, file.path);
    const Json& names = json.at("match").at("model_type");
    if (names.is_string()) {
      out.push_back(names.as_string());
      continue;
    }
    for (const Json& name : names.as_array()) out.push_back(name.as_string());
  }
  std::ranges::sort(out);
  return out;
}

const FamilyFile& family_by_name(std::string_view name) {
  std::vector<std::string> names;
  for (const FamilyFile& file : embedded_families()) {
    if (file.name == name) return file;
    names.emplace_back(file.name);
  }
  const std::vector<std::string> near = near_names(name, names);
  throw Error(ErrorCode::not_found, fmt::format("there is no family {}", quote(name)))
      .hint((near.empty() ? "families are " : "near names are ") +
            join(near.empty() ? names : near, ", "));
}

}  // namespace hfshard
