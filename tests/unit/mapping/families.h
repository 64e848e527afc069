#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "mapping/family_info.h"
#include "mapping/find.h"
#include "support/sizes.h"

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

/// All of them, or, with a sanitizer, a third: for tests of what the tables say, each of which runs
/// the same code for every family.
inline std::vector<FamilyInfo> families_to_walk() {
  const std::vector<FamilyInfo> all = list_families();
  const std::size_t step =
      all.size() / static_cast<std::size_t>(cases(static_cast<int>(all.size())));
  std::vector<FamilyInfo> out;
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

}  // namespace hfshard
