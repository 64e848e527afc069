#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/tables/family.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Finds the family whose file has this config's model_type, else one with its architecture. Null
/// if no family has either.
const FamilyFile* find_family(const Json& config);

/// Finds a family among the user's own, then among the built-in ones.
std::optional<FamilyFile> find_family(const Json& config, std::span<const MappingFile> own);

/// Returns a sentence if a config's model_type and architectures belong to different families, so
/// one of them is wrong. Otherwise empty.
std::string config_doubt(const Json& config, std::span<const MappingFile> own = {});

/// Returns the user's families and the built-in ones that they don't replace, sorted by name.
std::vector<FamilyFile> all_families(std::span<const MappingFile> own);

/// Makes a family file of the user's. `path` is its place. Throws: as load_table.
MappingFile own_mapping(const std::string& path, std::string text);

/// Returns every model_type of all families, sorted.
std::vector<std::string> known_model_types();

/// Returns the family with this name. Throws: not_found with similar names.
FamilyFile family_by_name(std::string_view name, std::span<const MappingFile> own = {});

}  // namespace hfshard
