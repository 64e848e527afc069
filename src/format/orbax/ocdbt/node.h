#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "format/orbax/ocdbt/envelope.h"

namespace hfshard::format::orbax::ocdbt {

/// Key of an entry: the first `prefix` bytes of the previous key, then `suffix` bytes of
/// Node::suffixes.
struct NodeKey {
  std::uint32_t prefix = 0;
  std::uint32_t suffix = 0;
  friend bool operator==(const NodeKey&, const NodeKey&) = default;
};

/// Value of a leaf's entry: inline bytes (taken in order from Node::inline_bytes) or a range of a
/// data file.
struct NodeValue {
  bool is_inline = false;
  std::uint32_t file = 0;  ///< index into Node::files
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  friend bool operator==(const NodeValue&, const NodeValue&) = default;
};

/// Reference from an interior node to a child.
struct NodeChild {
  std::uint32_t file = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  std::uint32_t common_prefix = 0;  ///< key bytes that the child omits
  Statistics statistics;
  friend bool operator==(const NodeChild&, const NodeChild&) = default;
};

/// A B+tree node (FORMAT.md 3.4). Leaves (height 0) have `values`, and interior nodes have
/// `children`. Source: google/tensorstore tensorstore/kvstore/ocdbt/format/btree.cc, btree_codec.h.
struct Node {
  std::uint8_t height = 0;
  std::vector<DataFile> files;
  std::vector<NodeKey> keys;
  std::string suffixes;
  std::vector<NodeValue> values;
  std::string inline_bytes;
  std::vector<NodeChild> children;
  friend bool operator==(const Node&, const Node&) = default;
};

std::string encode_node(const Node& node);
/// Checks everything that the node alone can show, including strictly increasing keys. Throws:
/// corrupt, limit.
Node decode_node(std::span<const std::byte> bytes, const Origin& origin);

}  // namespace hfshard::format::orbax::ocdbt
