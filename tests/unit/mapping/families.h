#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "mapping/resolve/family_info.h"
#include "mapping/resolve/find.h"
#include "support/sizes.h"

namespace hfshard {

/// Returns the row of a built-in family. Throws: not_found.
inline FamilyInfo family_info(std::string_view name) {
  return info_of_family(family_by_name(name), true);
}

/// Returns the example config of a family with a place for scales, with FP8 codes in blocks of 32.
inline Json kept_codes_config() {
  Json config = family_info("qwen3_5").example;
  for (const char* size :
       {"hidden_size", "head_dim", "linear_key_head_dim", "linear_value_head_dim",
        "moe_intermediate_size", "shared_expert_intermediate_size"})
    config["text_config"][size] = 32;
  config["quantization_config"] =
      parse_json(R"({"quant_method": "fp8", "weight_block_size": [32, 32]})", "c");
  return config;
}

/// Returns the rows of all built-in families, sorted by name.
inline std::vector<FamilyInfo> list_families() {
  std::vector<FamilyInfo> out;
  for (const FamilyFile& file : embedded_families()) out.push_back(info_of_family(file, true));
  return out;
}

/// Returns all families, or a third with a sanitizer. For tests of tables, which run the same code
/// for every family.
inline std::vector<FamilyInfo> families_to_walk() {
  const std::vector<FamilyInfo> all = list_families();
  const std::size_t step =
      all.size() / static_cast<std::size_t>(cases(static_cast<int>(all.size())));
  std::vector<FamilyInfo> out;
  for (std::size_t i = 0; i < all.size(); i += step) out.push_back(all[i]);
  return out;
}

}  // namespace hfshard
