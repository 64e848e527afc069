#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "mapping/family.h"

namespace hfshard {

/// The family whose file names this config's model_type, else one of its architectures; nullptr if
/// none does.
const FamilyFile* find_family(const Json& config);

/// Every model_type that some family names, sorted.
std::vector<std::string> known_model_types();

/// The family of this name. Throws: not_found with near names.
const FamilyFile& family_by_name(std::string_view name);

}  // namespace hfshard
