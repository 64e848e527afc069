#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/format.h"
#include "format/orbax/ocdbt/manifest.h"
#include "format/orbax/ocdbt/node.h"

namespace hfshard::format::orbax::ocdbt {

/// When a node is cut. The defaults keep a node's decoded form below some megabytes.
struct TreeLimits {
  std::uint32_t node_entries = 32768;
  std::uint64_t node_bytes = std::uint64_t{1} << 20;
};

/// Builds a B+tree bottom-up from entries in strictly increasing key order, and streams its nodes
/// to one file as they fill up; holds one open node per level. Call add_* for every key, then
/// finish once.
class TreeWriter {
 public:
  /// Path of a data file below the database root, by number.
  using FilePath = std::function<std::string(std::uint32_t)>;

  /// `node_path`: the file below the database root that `sink` fills.
  TreeWriter(std::string node_path, FilePath file_path, ByteSink sink, TreeLimits limits = {});

  /// Throws: limit (key above 65535 bytes, value above 1 MiB); internal (keys out of order).
  void add_inline(std::string_view key, std::string_view value);
  void add_range(std::string_view key, const Place& place);
  /// Writes what is open and returns the version to put in the manifest (its file number is 0: the
  /// node file), without generation and time.
  Version finish();

 private:
  struct Level {
    Node node;
    std::string first_key;
    std::string last_key;                          // of the whole subtree
    std::string last_entry;                        // key of the last entry
    std::map<std::uint32_t, std::uint32_t> files;  // data file number -> index in node.files
    Statistics statistics;                         // of the entries
    std::uint64_t estimate_bytes = 0;
    bool flushed = false;  // a node of this level was written before
  };
  struct Written {
    std::string first_key;
    std::string last_key;
    NodeChild child;
  };

  Level& open_leaf(std::string_view key, std::uint64_t value_bytes);
  void add_key(Level& level, std::string_view key);
  void add_child(std::size_t height, const Written& written);
  Written write_node(std::size_t height, bool root);
  void flush(std::size_t height);

  std::string node_path_;
  FilePath file_path_;
  ByteSink sink_;
  TreeLimits limits_;
  std::vector<Level> levels_;
  std::string previous_key_;
  std::uint64_t offset_bytes_ = 0;
};

}  // namespace hfshard::format::orbax::ocdbt
