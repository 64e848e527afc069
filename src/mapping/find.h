#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/family.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// The family whose file names this config's model_type, else one of its architectures; nullptr if
/// none does.
const FamilyFile* find_family(const Json& config);

/// The same, with the user's own families before the built-in ones.
std::optional<FamilyFile> find_family(const Json& config, std::span<const MappingFile> own);

/// A sentence where a config's model_type and architectures are not of one family, so that one of
/// them is wrong; else nothing.
std::string config_doubt(const Json& config, std::span<const MappingFile> own = {});

/// Every family: the user's own, and the built-in ones but those that they replace; sorted by name.
std::vector<FamilyFile> all_families(std::span<const MappingFile> own);

/// A family file of the user's. `path` is where it lies. Throws: as load_table.
MappingFile own_mapping(const std::string& path, std::string text);

/// Every model_type that some family names, sorted.
std::vector<std::string> known_model_types();

/// The family of this name. Throws: not_found with near names.
FamilyFile family_by_name(std::string_view name, std::span<const MappingFile> own = {});

}  // namespace hfshard
