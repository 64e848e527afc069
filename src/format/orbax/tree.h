#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hfshard::format::orbax {

/// What `_METADATA` says.
struct Tree {
  std::vector<std::string> arrays;  ///< dotted paths of the leaves that are arrays, sorted
  Json custom_metadata;             ///< null if there is none
};

/// Parses `_METADATA`, entry by entry. Empty nodes and strings are left out. `file`: for errors.
/// Throws: corrupt, unsupported (not OCDBT with zarr3, an unknown kind of leaf).
Tree parse_tree(std::string text, std::string_view file);

/// Parses a small JSON file of a checkpoint, where what is malformed is damage. Throws: corrupt.
Json parse_metadata(std::string_view text, std::string_view file);

}  // namespace hfshard::format::orbax
