#include "format/orbax/ocdbt/reader.h"

#include <charconv>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/inner_path.h"
#include "base/text.h"
#include "format/orbax/ocdbt/node.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax::ocdbt {
namespace {

// A manifest has a file table and some versions.
constexpr std::uint64_t kMaxManifestBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kMaxKeys = std::uint64_t{1} << 26;
// A database can refer to a node several times, since TensorStore copies ranges of keys that way.
// So nine nodes can make a tree of 2^24. Therefore the distinct nodes bound how much a walk decodes
// again.
constexpr std::uint64_t kFreeBytes = std::uint64_t{1} << 20;
constexpr std::uint64_t kMostAgain = 16;
// A key counts with its full length too, although nodes store little of it. Copying it is cheap.
constexpr std::uint64_t kKeyBytesForOne = 16;
constexpr std::uint64_t kDecodedEntryBytes = 8;

// Numbered manifests, one per generation: `manifest.0000000000000001`.
// Source: google/tensorstore tensorstore/kvstore/ocdbt/format/manifest.cc, GetManifestPath.
constexpr std::string_view kNumberedPrefix = "manifest.";
constexpr std::size_t kNumberDigits = 16;

std::optional<std::uint64_t> manifest_number(std::string_view name) {
  if (!name.starts_with(kNumberedPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kNumberedPrefix.size());
  if (digits.size() != kNumberDigits ||
      digits.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  std::uint64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return value;
}

// Returns the highest of the numbered manifests in a database.
std::string newest_manifest(const StorePath& root) {
  std::string newest;
  std::uint64_t highest = 0;
  for (const std::string& name : root.list()) {
    const auto number = manifest_number(name);
    if (!number || (!newest.empty() && *number < highest)) continue;
    newest = name;
    highest = *number;
  }
  return newest;
}

// The place of a node, and its parent's claims about it.
struct NodeRef {
  std::string transitive;  // directory, from the parents' base paths
  std::string prefix;      // of all its keys
  std::string lower;       // no stored key is below it
  DataFile file;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  std::uint8_t height = 0;
};

class Walk {
 public:
  Walk(const StorePath& root, const std::string& manifest,
       const std::function<void(const Entry&)>& visit)
      : root_(root), manifest_(manifest), visit_(visit) {}

  void enter(const NodeRef& ref) {
    const Node node = read(ref);
    const std::string transitive = ref.transitive + ref.file.path.substr(0, ref.file.base_bytes);
    if (node.height == 0) {
      visit_leaf(ref, node, transitive);
    } else {
      visit_children(ref, node, transitive);
    }
  }

 private:
  std::string checked_path(const std::string& transitive, const DataFile& file) const {
    std::string path = transitive + file.path;
    if (path.size() > kMaxPathBytes || !is_inner_path(path)) {
      throw Error(ErrorCode::corrupt, fmt::format("the index names the data file {}", quote(path)))
          .in_file(manifest_);
    }
    return path;
  }

  const SourceFile& open(const std::string& path) {
    if (!source_ || path_ != path) source_ = (root_ / path).open();
    path_ = path;
    return *source_;
  }

  Node read(const NodeRef& ref) {
    const SourceFile& file = open(checked_path(ref.transitive, ref.file));
    const Origin origin{file.name(), ref.offset_bytes, file.size_bytes()};
    if (!in_range(ref.offset_bytes, ref.length_bytes, file.size_bytes())) {
      throw Error(ErrorCode::corrupt, "an index node passes the end of the file")
          .in_file(file.name())
          .at({ref.offset_bytes, ref.offset_bytes + ref.length_bytes}, file.size_bytes());
    }
    if (ref.length_bytes > kMaxNodeBytes) {
      throw Error(ErrorCode::limit,
                  fmt::format("an index node of {} bytes; hfshard reads at most {}",
                              ref.length_bytes, kMaxNodeBytes))
          .in_file(file.name());
    }
    std::vector<std::byte> bytes(ref.length_bytes);
    file.read_at(ref.offset_bytes, bytes);
    Node node = decode_node(bytes, origin);
    const std::string_view first = std::string_view(node.suffixes).substr(0, node.keys[0].suffix);
    if (node.height != ref.height || first < ref.lower) {
      throw Error(
          ErrorCode::corrupt,
          node.height != ref.height
              ? fmt::format("an index node of height {} instead of {}", node.height, ref.height)
              : std::string("an index node starts below the key that its parent states"))
          .in_file(file.name())
          .at({ref.offset_bytes, ref.offset_bytes + ref.length_bytes}, file.size_bytes());
    }
    count(ref, node, file.name());
    return node;
  }

  void count(const NodeRef& ref, const Node& node, const std::string& name) {
    const bool first = seen_.emplace(name, ref.offset_bytes).second;
    const std::uint64_t key_bytes = kDecodedEntryBytes + ref.prefix.size() / kKeyBytesForOne;
    (first ? first_bytes_ : again_bytes_) +=
        node.suffixes.size() + node.inline_bytes.size() + node.keys.size() * key_bytes;
    if (again_bytes_ <= kFreeBytes || again_bytes_ / kMostAgain <= first_bytes_) return;
    throw Error(ErrorCode::limit,
                fmt::format("the index names its {} nodes over and over", seen_.size()))
        .in_file(manifest_);
  }

  // Checks that full keys increase over the whole walk, not only within a node.
  void check_order(const std::string& key) {
    if (keys_ > 0 && key <= last_key_) {
      throw Error(ErrorCode::corrupt,
                  fmt::format("key {} of the index isn't above {}", quote(key), quote(last_key_)))
          .in_file(manifest_);
    }
    if (++keys_ > kMaxKeys) {
      throw Error(ErrorCode::limit, fmt::format("the index has more than {} keys", kMaxKeys))
          .in_file(manifest_);
    }
    last_key_ = key;
  }

  void visit_leaf(const NodeRef& ref, const Node& node, const std::string& transitive) {
    std::vector<std::string> paths;
    for (const DataFile& file : node.files) paths.push_back(checked_path(transitive, file));
    std::string key = ref.prefix;
    std::size_t at = 0;
    std::size_t inline_at = 0;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      key.resize(ref.prefix.size() + node.keys[i].prefix);
      key.append(node.suffixes, at, node.keys[i].suffix);
      at += node.keys[i].suffix;
      check_order(key);
      const NodeValue& value = node.values[i];
      Entry entry;
      entry.key = key;
      entry.is_inline = value.is_inline;
      entry.length_bytes = value.length_bytes;
      if (value.is_inline) {
        entry.inline_bytes =
            std::string_view(node.inline_bytes).substr(inline_at, value.length_bytes);
        inline_at += value.length_bytes;
      } else {
        entry.path = paths[value.file];
        entry.offset_bytes = value.offset_bytes;
      }
      visit_(entry);
    }
  }

  void visit_children(const NodeRef& ref, const Node& node, const std::string& transitive) {
    std::string key;
    std::size_t at = 0;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      key.resize(node.keys[i].prefix);
      key.append(node.suffixes, at, node.keys[i].suffix);
      at += node.keys[i].suffix;
      const NodeChild& child = node.children[i];
      if (++nodes_ > kMaxKeys) {
        throw Error(ErrorCode::limit, "the index has too many nodes").in_file(manifest_);
      }
      enter({transitive, ref.prefix + key.substr(0, child.common_prefix),
             key.substr(child.common_prefix), node.files[child.file], child.offset_bytes,
             child.length_bytes, static_cast<std::uint8_t>(node.height - 1)});
    }
  }

  const StorePath& root_;
  const std::string& manifest_;
  const std::function<void(const Entry&)>& visit_;
  std::unique_ptr<SourceFile> source_;
  std::string path_;  // of `source_`
  std::string last_key_;
  std::uint64_t keys_ = 0;
  std::uint64_t nodes_ = 0;
  std::set<std::pair<std::string, std::uint64_t>> seen_;  // files and offsets of nodes
  std::uint64_t first_bytes_ = 0;                         // of these nodes, decoded
  std::uint64_t again_bytes_ = 0;                         // that were decoded again
};

}  // namespace

Database::Database(StorePath root) : root_(std::move(root)) {
  const auto read = [&](std::string_view file) {
    const StorePath manifest = root_ / file;
    name_ = manifest.text();
    const std::string text = manifest.read(kMaxManifestBytes);
    manifest_ = decode_manifest(as_bytes(text), {name_, 0, text.size()});
  };
  read("manifest.ocdbt");
  if (!manifest_.is_numbered) return;
  const std::string newest = newest_manifest(root_);
  if (newest.empty()) {
    throw Error(ErrorCode::not_found, "the numbered manifests that it names are missing")
        .in_file(name_);
  }
  const Manifest announced = std::exchange(manifest_, {});
  read(newest);
  const bool same = manifest_.uuid == announced.uuid && !manifest_.is_numbered;
  if (same && manifest_.versions.back().generation == manifest_number(newest)) return;
  throw Error(ErrorCode::corrupt, same ? fmt::format("a numbered manifest of generation {}",
                                                     manifest_.versions.back().generation)
                                       : std::string("a numbered manifest of another database"))
      .in_file(name_);
}

void Database::walk(const std::function<void(const Entry&)>& visit) const {
  const Version& version = manifest_.versions.back();
  if (version.empty()) return;
  Walk(root_, name_, visit)
      .enter({"", "", "", manifest_.files[version.file], version.offset_bytes, version.length_bytes,
              version.root_height});
}

}  // namespace hfshard::format::orbax::ocdbt
