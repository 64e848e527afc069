#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "catalog/tree_structure.h"

namespace hfshard::format::orbax {

/// The contents of `_METADATA`.
struct Tree {
  std::vector<TreeEntry> entries;   ///< in the order of the file
  std::vector<std::string> arrays;  ///< dotted paths of arrays, sorted
  Json custom_metadata;             ///< may be null
  std::string rich_types;           ///< JSON text of `value_metadata_tree`
  std::optional<bool> use_ocdbt;    ///< storage of the arrays, if stated
  bool use_zarr3 = false;           ///< zarr's version, if both exist
  bool may_lack = false;            ///< missing chunks have the fill value
};

/// Parses `_METADATA`, entry by entry. `file` is for errors. Throws: corrupt, unsupported (an
/// unknown kind of leaf). Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/tree.py,
/// value_metadata_entry.py, empty_values.py.
Tree parse_tree(std::string text, std::string_view file);

/// Parses a small JSON file of a checkpoint. Malformed text counts as damage. Numbers that JSON
/// lacks, as Python writes them, become texts: "NaN". Throws: corrupt.
Json parse_metadata(std::string_view text, std::string_view file);

}  // namespace hfshard::format::orbax
