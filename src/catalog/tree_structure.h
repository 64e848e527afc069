#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hfshard {

/// A key of a tree: a key of a dict, or an index of a list.
struct TreeKey {
  std::string text;
  bool is_index = false;
  friend bool operator==(const TreeKey&, const TreeKey&) = default;
};

/// Appends a key to the unique name of a node. A dotted path doesn't tell keys apart, since they
/// may contain dots.
void append_key(const TreeKey& key, std::string& node);

/// One entry of a tree: an array, a text, or a node without children.
struct TreeEntry {
  enum class Kind : std::uint8_t { array, text, empty };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  Kind kind = Kind::array;
  std::string path;  ///< its keys joined with dots, which is the name of an array
  /// For each key, twice its end in `path`, plus one if it is an index. `path` alone doesn't tell
  /// keys apart, since they may contain dots.
  std::vector<std::uint32_t> ends;
  std::string type;  ///< in the words of its format: "jax.Array", "scalar", "Dict", "None"
  std::uint32_t sharding = kNone;  ///< index into TreeStructure::shardings
  std::string random_key;          ///< generator of PRNG keys, or empty

  void add_key(std::string_view key, bool is_index);
  std::vector<TreeKey> keys() const;
};

/// Names the kind of an entry in a message: `a string`, `an empty Dict`.
std::string words_for(const TreeEntry& entry);

/// Everything in a tree except its arrays: the kinds of its nodes, strings, and the metadata of the
/// tree and its step. A reshard writes all of it again.
struct TreeStructure {
  std::vector<TreeEntry> entries;                  ///< in the order in which the tree was written
  std::vector<std::string> shardings;              ///< in the words of the format, each once
  std::vector<std::string> mesh_axes;              ///< of the meshes in `shardings`, sorted
  std::map<std::string, Json, std::less<>> texts;  ///< by path
  Json attributes;                                 ///< custom metadata of the tree, or null
  Json step;                                       ///< metadata of its step, or null
  std::string item;                                ///< name of the item, or empty
  std::string rich_types;                          ///< JSON text of the node types, or empty
};

/// Member of hfshard's custom metadata: the tree was made of a nested state (Catalog::nested), not
/// of a flat one with dotted names.
inline constexpr std::string_view kNestedFlag = "nested";

/// Heap that it holds (base/heap.h).
std::uint64_t heap_bytes(const TreeStructure& structure);

/// Returns the subtree below a dotted path as a tree of its own.
TreeStructure subtree(const TreeStructure& tree, std::string_view root);

/// Returns the tree with the entries that `takes` accepts. Orbax can't restore a list with gaps, so
/// such a list becomes a dict with its indices as keys; `renamed` is called with its path.
TreeStructure select_entries(const TreeStructure& tree,
                             const std::function<bool(const TreeEntry&)>& takes,
                             const std::function<void(const std::string&)>& renamed);

/// Makes a dict, with its indices as keys, of each list that has gaps; `renamed` as above.
void close_gaps(TreeStructure& tree, const std::function<void(const std::string&)>& renamed);

/// One difference between two trees.
struct StructureDifference {
  enum class Side : std::uint8_t { both, a, b };
  std::string path;  ///< dotted; empty for the whole tree
  /// `a scalar in A, an array in B`; or `a string`, if only one side has the entry.
  std::string what;
  Side only = Side::both;
};

/// Compares the kinds of nodes (tuples and named tuples too), strings, empty nodes, generators of
/// PRNG keys and custom metadata of two trees. Compares the custom metadata and metrics of their
/// steps. It ignores the order of entries, shardings, and arrays that only one tree has. JAX and
/// numpy arrays are the same, since programs restore either as either.
std::vector<StructureDifference> compare_structures(const TreeStructure& a, const TreeStructure& b);

/// Returns the keys of the custom metadata and metrics that the tree and its step have, those of
/// this program aside, sorted.
std::vector<std::string> custom_keys(const TreeStructure& tree);

/// Returns the SHA-256 of everything that compare_structures compares, in hex. Trees with the same
/// arrays and no differences have the same hash.
std::string structure_sha256(const TreeStructure& tree);

}  // namespace hfshard
