#include "format/orbax/ocdbt/node.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

void put_keys(std::string& body, const Node& node) {
  put_varint(body, node.keys.size());
  for (std::size_t i = 1; i < node.keys.size(); ++i) put_varint(body, node.keys[i].prefix);
  for (const NodeKey& key : node.keys) put_varint(body, key.suffix);
  for (const NodeChild& child : node.children) put_varint(body, child.common_prefix);
  body += node.suffixes;
}

void put_values(std::string& body, const Node& node) {
  for (const NodeValue& value : node.values) put_varint(body, value.length_bytes);
  for (const NodeValue& value : node.values) body += value.is_inline ? '\0' : '\1';
  for (const NodeValue& value : node.values) {
    if (!value.is_inline) put_varint(body, value.file);
  }
  for (const NodeValue& value : node.values) {
    if (!value.is_inline) put_varint(body, value.offset_bytes);
  }
  body += node.inline_bytes;
}

void put_children(std::string& body, const Node& node) {
  for (const NodeChild& child : node.children) put_varint(body, child.file);
  for (const NodeChild& child : node.children) put_varint(body, child.offset_bytes);
  for (const NodeChild& child : node.children) put_varint(body, child.length_bytes);
  for (const NodeChild& child : node.children) put_varint(body, child.statistics.keys);
  for (const NodeChild& child : node.children) put_varint(body, child.statistics.tree_bytes);
  for (const NodeChild& child : node.children) {
    put_varint(body, child.statistics.indirect_value_bytes);
  }
}

void get_keys(Cursor& cursor, Node& node) {
  const std::uint64_t n = cursor.count("number of entries", kMaxNodeEntries);
  if (n == 0) cursor.fail("a node without entries");
  node.keys.resize(n);
  for (std::size_t i = 1; i < n; ++i) {
    node.keys[i].prefix =
        static_cast<std::uint32_t>(cursor.varint("key prefix length", kMaxKeyBytes));
  }
  std::uint64_t suffix_bytes = 0;
  for (NodeKey& key : node.keys) {
    key.suffix = static_cast<std::uint32_t>(cursor.varint("key suffix length", kMaxKeyBytes));
    suffix_bytes += key.suffix;
  }
  if (node.height > 0) {
    node.children.resize(n);
    for (NodeChild& child : node.children) {
      child.common_prefix =
          static_cast<std::uint32_t>(cursor.varint("common prefix length", kMaxKeyBytes));
    }
  }
  node.suffixes = cursor.text("keys", suffix_bytes);
}

void check_keys(const Cursor& cursor, const Node& node) {
  std::string key;
  std::size_t at = 0;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const auto [prefix, suffix] = node.keys[i];
    if (prefix > key.size()) cursor.fail("a key prefix is longer than the key before");
    const std::string_view fresh = std::string_view(node.suffixes).substr(at, suffix);
    at += suffix;
    // The shared prefix is equal, so the rest decides; char_traits<char> compares unsigned bytes.
    if (i > 0 && std::string_view(key).substr(prefix) >= fresh) {
      cursor.fail(fmt::format("the key after {} isn't above it", quote(key)));
    }
    key.resize(prefix);
    key += fresh;
    if (key.size() > kMaxKeyBytes) cursor.fail(fmt::format("a key of {} bytes", key.size()));
    if (!node.children.empty() && node.children[i].common_prefix > key.size()) {
      cursor.fail("a common prefix is longer than its key");
    }
  }
}

void check_range(const Cursor& cursor, std::uint64_t offset, std::uint64_t length) {
  if (!in_range(offset, length, kMaxEndOffset)) {
    cursor.fail(fmt::format("offset {} and length {} pass 2^63", offset, length));
  }
}

std::uint32_t get_file(Cursor& cursor, const Node& node) {
  const std::uint64_t file = cursor.varint("data file number");
  if (file >= node.files.size()) {
    cursor.fail(fmt::format("data file number {} of {}", file, node.files.size()));
  }
  return static_cast<std::uint32_t>(file);
}

void get_values(Cursor& cursor, Node& node) {
  node.values.resize(node.keys.size());
  for (NodeValue& value : node.values) value.length_bytes = cursor.varint("value length");
  std::uint64_t inline_bytes = 0;
  for (NodeValue& value : node.values) {
    const std::uint8_t kind = cursor.u8("value kind");
    if (kind > 1) cursor.fail(fmt::format("the unknown value kind {}", kind));
    value.is_inline = kind == 0;
    if (!value.is_inline) continue;
    if (value.length_bytes > kMaxInlineBytes) {
      cursor.fail(fmt::format("an inline value of {} bytes; at most {} are allowed",
                              value.length_bytes, kMaxInlineBytes));
    }
    inline_bytes += value.length_bytes;
  }
  for (NodeValue& value : node.values) {
    if (!value.is_inline) value.file = get_file(cursor, node);
  }
  for (NodeValue& value : node.values) {
    if (value.is_inline) continue;
    value.offset_bytes = cursor.varint("value offset");
    check_range(cursor, value.offset_bytes, value.length_bytes);
  }
  node.inline_bytes = cursor.text("inline values", inline_bytes);
}

void get_children(Cursor& cursor, Node& node) {
  for (NodeChild& child : node.children) child.file = get_file(cursor, node);
  for (NodeChild& child : node.children) child.offset_bytes = cursor.varint("child offset");
  for (NodeChild& child : node.children) {
    child.length_bytes = cursor.varint("child length");
    check_range(cursor, child.offset_bytes, child.length_bytes);
  }
  for (NodeChild& child : node.children) child.statistics.keys = cursor.varint("number of keys");
  for (NodeChild& child : node.children) {
    child.statistics.tree_bytes = cursor.varint("number of tree bytes");
  }
  for (NodeChild& child : node.children) {
    child.statistics.indirect_value_bytes = cursor.varint("number of value bytes");
  }
}

}  // namespace

std::string encode_node(const Node& node) {
  HFSHARD_CHECK(!node.keys.empty() && node.keys.size() <= kMaxNodeEntries);
  HFSHARD_CHECK(node.values.size() == (node.height == 0 ? node.keys.size() : 0));
  HFSHARD_CHECK(node.children.size() == (node.height == 0 ? 0 : node.keys.size()));
  std::string body;
  body += static_cast<char>(node.height);
  put_data_files(body, node.files);
  put_keys(body, node);
  if (node.height == 0) {
    put_values(body, node);
  } else {
    put_children(body, node);
  }
  return seal(kNodeMagic, body);
}

Node decode_node(std::span<const std::byte> bytes, const Origin& origin) {
  std::vector<std::byte> unpacked;
  Cursor cursor = unseal(kNodeMagic, bytes, origin, "index node", unpacked);
  Node node;
  node.height = cursor.u8("height");
  node.files = get_data_files(cursor);
  get_keys(cursor, node);
  check_keys(cursor, node);
  if (node.height == 0) {
    get_values(cursor, node);
  } else {
    get_children(cursor, node);
  }
  cursor.finish();
  return node;
}

}  // namespace hfshard::format::orbax::ocdbt
