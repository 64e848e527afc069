#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hfshard::format::orbax {

/// What `_METADATA` says.
struct Tree {
  std::vector<std::string> arrays;  ///< dotted paths of the leaves that are arrays, sorted
  Json custom_metadata;             ///< null if there is none
  std::optional<bool> use_ocdbt;    ///< what holds the arrays; nothing: what is there
  bool use_zarr3 = false;           ///< the version of zarr, where both are there
  bool may_lack = false;            ///< chunks that are not stored have the fill value
};

/// Parses `_METADATA`, entry by entry. Empty nodes and strings are left out. `file`: for errors.
/// Throws: corrupt, unsupported (an unknown kind of leaf).
Tree parse_tree(std::string text, std::string_view file);

/// Parses a small JSON file of a checkpoint, where what is malformed is damage. Numbers that JSON
/// lacks, as Python writes them, become texts: "NaN". Throws: corrupt.
Json parse_metadata(std::string_view text, std::string_view file);

}  // namespace hfshard::format::orbax
