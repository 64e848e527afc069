#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/tree_structure.h"

namespace hfshard {

/// Functions for the node types of a tree that Orbax keeps as JSON text, if a program asks for it
/// (`value_metadata_tree`). Tuples and named tuples are lists and dicts in the tree's entries.
/// Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/tree_rich_types.py.

/// Returns the types below a dotted path. Returns an empty text without types.
/// Throws: bad_input (`rich` isn't the JSON of such types).
std::string rich_types_below(const std::string& rich, std::string_view root);

/// Returns the types without the leaves that `takes` refuses, and without nodes that become empty.
/// A list or tuple that gets gaps becomes a dict, as in close_gaps. Throws: as rich_types_below.
std::string select_rich_types(const std::string& rich,
                              const std::function<bool(const std::vector<TreeKey>&)>& takes);

/// A node whose type is more than a list or a dict.
struct RichNode {
  std::string path;  ///< dotted
  std::string what;  ///< `a tuple`, `a named tuple optax.ScaleByAdamState`
};

/// Returns the nodes by their unique names (append_key). Types that can't be read count as one node
/// at the root.
std::map<std::string, RichNode> rich_nodes(const std::string& rich);

}  // namespace hfshard
