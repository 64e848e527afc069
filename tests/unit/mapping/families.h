#pragma once

#include <string_view>
#include <vector>

#include "mapping/family_info.h"
#include "mapping/find.h"

namespace hfshard {

/// The row of a built-in family. Throws: not_found.
inline FamilyInfo family_info(std::string_view name) {
  return info_of_family(family_by_name(name), true);
}

/// The rows of all built-in families, sorted by name.
inline std::vector<FamilyInfo> list_families() {
  std::vector<FamilyInfo> out;
  for (const FamilyFile& file : embedded_families()) out.push_back(info_of_family(file, true));
  return out;
}

}  // namespace hfshard
