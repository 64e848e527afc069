#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hfshard {

/// What the user chose that changes the mapping.
struct MappingOptions {
  std::string scheme = "maxtext";  ///< "maxtext" or "hf"
  bool stacked = true;             ///< --layers
  std::map<std::string, std::string>
      options;  ///< --option NAME=VALUE, --with a,b (value "true"), --vocab N ("vocab")
  std::vector<std::string> include;  ///< globs on source names; empty = all
  std::vector<std::string> exclude;
};

}  // namespace hfshard
