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

/// When a node is full. With the defaults, a decoded node has a few megabytes at most.
struct TreeLimits {
  std::uint32_t node_entries = 32768;
  std::uint64_t node_bytes = std::uint64_t{1} << 20;
};

/// Builds a B+tree bottom-up from entries in strictly increasing key order. Streams full nodes to
/// one file, and holds one open node per level. Call add_* for every key, then finish once.
class TreeWriter {
 public:
  /// Returns the path of a data file below the database root, by number.
  using FilePath = std::function<std::string(std::uint32_t)>;

  /// `sink` fills the file `node_path`, which is relative to the database root.
  TreeWriter(std::string node_path, FilePath file_path, ByteSink sink, TreeLimits limits = {});

  /// Add an entry. Throws: limit (key above 65535 bytes, value above 1 MiB); internal (keys out of
  /// order).
  void add_inline(std::string_view key, std::string_view value);
  void add_range(std::string_view key, const Place& place);
  /// Writes the open nodes. Returns the version for the manifest, without generation and time. Its
  /// file number is 0: the node file.
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
    bool flushed = false;  // wrote a node before
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
