#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

/// One embedded mappings/<family>.json.
struct FamilyFile {
  std::string_view name;  ///< "qwen3"
  std::string_view path;  ///< "mappings/qwen3.json", for errors
  std::string_view text;
  std::string_view match = {};  ///< its member `match`; empty for a file that isn't built in

  bool is_built_in() const noexcept { return !match.empty(); }
};

/// Returns all built-in families, sorted by name. CMake generates them from mappings/*.json.
const std::vector<FamilyFile>& embedded_families();
/// Returns mappings/common.json: the definitions that families share.
std::string_view embedded_common();
/// Returns mappings/loaders.json: the models of loaders.
std::string_view embedded_loaders();
/// Returns mappings/proof.json: the results of tests/interop/proof.py for each family.
std::string_view embedded_proof();

}  // namespace hfshard
