#include "format/orbax/ocdbt/writer.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/text.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

// Approximate size of an entry's lengths, kind, file number and offset.
constexpr std::uint64_t kEntryBytes = 16;

// Drops the first `size` bytes, which all keys share, from a node that was built with full keys.
void strip_prefix(Node& node, std::uint32_t size) {
  node.suffixes.erase(0, size);
  node.keys.front().suffix -= size;
  for (std::size_t i = 1; i < node.keys.size(); ++i) node.keys[i].prefix -= size;
  for (NodeChild& child : node.children) child.common_prefix -= size;
}

// Sorts the data file table by path, as TensorStore does.
void sort_files(Node& node) {
  std::vector<std::uint32_t> order(node.files.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {},
                    [&](std::uint32_t i) -> const std::string& { return node.files[i].path; });
  std::vector<std::uint32_t> place(order.size());
  std::vector<DataFile> files;
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    place[order[i]] = i;
    files.push_back(std::move(node.files[order[i]]));
  }
  node.files = std::move(files);
  for (NodeValue& value : node.values) {
    if (!value.is_inline) value.file = place[value.file];
  }
}

}  // namespace

TreeWriter::TreeWriter(std::string node_path, FilePath file_path, ByteSink sink, TreeLimits limits)
    : node_path_(std::move(node_path)),
      file_path_(std::move(file_path)),
      sink_(std::move(sink)),
      limits_(limits),
      levels_(1) {
  HFSHARD_CHECK(limits.node_entries >= 2 && limits.node_entries <= kMaxNodeEntries);
}

void TreeWriter::add_inline(std::string_view key, std::string_view value) {
  if (value.size() > kMaxInlineBytes) {
    throw Error(ErrorCode::limit, fmt::format("an inline value of {} bytes; OCDBT allows {}",
                                              value.size(), kMaxInlineBytes))
        .in_tensor(key);
  }
  Level& leaf = open_leaf(key, value.size());
  leaf.node.values.push_back({true, 0, 0, value.size()});
  leaf.node.inline_bytes += value;
}

void TreeWriter::add_range(std::string_view key, const Place& place) {
  Level& leaf = open_leaf(key, 0);
  const auto next = static_cast<std::uint32_t>(leaf.node.files.size());
  const auto [found, fresh] = leaf.files.try_emplace(place.file, next);
  if (fresh) {
    leaf.node.files.push_back({file_path_(place.file), 0});
    leaf.estimate_bytes += leaf.node.files.back().path.size() + 4;
  }
  leaf.node.values.push_back({false, found->second, place.offset_bytes, place.length_bytes});
  leaf.statistics.indirect_value_bytes += place.length_bytes;
}

// Returns the leaf for the next entry, with its key added.
TreeWriter::Level& TreeWriter::open_leaf(std::string_view key, std::uint64_t value_bytes) {
  if (key.size() > kMaxKeyBytes) {
    throw Error(ErrorCode::limit,
                fmt::format("a key of {} bytes; OCDBT allows {}", key.size(), kMaxKeyBytes))
        .in_tensor(key);
  }
  const bool first = !levels_[0].flushed && levels_[0].node.keys.empty();
  HFSHARD_CHECK(first || std::string_view(previous_key_) < key);
  previous_key_ = key;
  const Level& open = levels_[0];
  const bool full = open.node.keys.size() >= limits_.node_entries ||
                    open.estimate_bytes + value_bytes > limits_.node_bytes;
  if (full && !open.node.keys.empty()) flush(0);
  Level& leaf = levels_[0];
  add_key(leaf, key);
  leaf.last_key = key;
  leaf.statistics.keys += 1;
  leaf.estimate_bytes += value_bytes;
  return leaf;
}

void TreeWriter::add_key(Level& level, std::string_view key) {
  NodeKey out;
  if (level.node.keys.empty()) {
    level.first_key = key;
  } else {
    out.prefix = static_cast<std::uint32_t>(common_prefix(level.last_entry, key));
  }
  out.suffix = static_cast<std::uint32_t>(key.size()) - out.prefix;
  level.node.keys.push_back(out);
  level.node.suffixes += key.substr(out.prefix);
  level.last_entry = key;
  level.estimate_bytes += out.suffix + kEntryBytes;
}

void TreeWriter::add_child(std::size_t height, const Written& written) {
  if (levels_.size() == height) levels_.emplace_back();
  const bool full = levels_[height].node.keys.size() >= limits_.node_entries ||
                    levels_[height].estimate_bytes > limits_.node_bytes;
  // A node needs at least two children, or the tree would grow in height forever.
  if (full && levels_[height].node.keys.size() >= 2) flush(height);
  Level& level = levels_[height];
  if (level.node.files.empty()) level.node.files.push_back({node_path_, 0});
  level.node.height = static_cast<std::uint8_t>(height);
  add_key(level, written.first_key);
  level.last_key = written.last_key;
  level.node.children.push_back(written.child);
  level.statistics += written.child.statistics;
}

// Writes the open node of a level and leaves an empty one.
TreeWriter::Written TreeWriter::write_node(std::size_t height, bool root) {
  Level level = std::exchange(levels_[height], Level{});
  levels_[height].flushed = true;
  Written out;
  out.child.common_prefix =
      static_cast<std::uint32_t>(common_prefix(level.first_key, level.last_key));
  if (!root) strip_prefix(level.node, out.child.common_prefix);
  if (height == 0) sort_files(level.node);
  const std::string bytes = encode_node(level.node);
  sink_(as_bytes(bytes));
  out.child.offset_bytes = std::exchange(offset_bytes_, offset_bytes_ + bytes.size());
  out.child.length_bytes = bytes.size();
  out.child.statistics = level.statistics;
  out.child.statistics.tree_bytes += bytes.size();
  out.first_key = std::move(level.first_key);
  out.last_key = std::move(level.last_key);
  return out;
}

void TreeWriter::flush(std::size_t height) {
  const Written written = write_node(height, /*root=*/false);
  add_child(height + 1, written);
}

Version TreeWriter::finish() {
  Version out;
  if (levels_[0].node.keys.empty()) {
    HFSHARD_CHECK(!levels_[0].flushed);
    out.offset_bytes = UINT64_MAX;
    out.length_bytes = UINT64_MAX;
    return out;
  }
  // A level that flushed before has several nodes and needs a parent. The first level that hasn't
  // has the root.
  std::size_t height = 0;
  while (levels_[height].flushed) flush(height++);
  const Written root = write_node(height, /*root=*/true);
  out.root_height = static_cast<std::uint8_t>(height);
  out.offset_bytes = root.child.offset_bytes;
  out.length_bytes = root.child.length_bytes;
  out.statistics = root.child.statistics;
  return out;
}

}  // namespace hfshard::format::orbax::ocdbt
