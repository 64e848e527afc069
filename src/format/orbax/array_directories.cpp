#include "format/orbax/array_directories.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/inner_path.h"
#include "format/orbax/metadata.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

// Depth of a chunk's key below its array: `c` and an index for each of eight dims.
constexpr int kMaxDepth = 10;
// Array names can have slashes, so directories can be between an item and its arrays.
constexpr int kMaxNameDepth = 8;
constexpr std::size_t kMaxDirectories = std::size_t{1} << 20;
// An item with arrays has one among its first entries.
constexpr std::size_t kLookedAt = 64;

// Entries of an item that aren't arrays.
constexpr std::array<std::string_view, 4> kNoArrays{"array_metadatas", "d", "ocdbt_data",
                                                    "ocdbt_meta"};

std::string key_below(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : fmt::format("{}/{}", prefix, name);
}

// A tree file means an item, which can be a single array too.
bool has_array(const StorePath& directory) {
  if ((directory / kTreeFile).exists()) return false;
  return (directory / kArrayFile).is_file() || (directory / kArrayFileV2).is_file();
}

void find_below(const StorePath& item, const std::string& prefix, int depth, bool only_first,
                std::vector<std::string>& found) {
  std::size_t looked_at = 0;
  for (const std::string& name : (prefix.empty() ? item : item / prefix).list()) {
    if (prefix.empty() && std::ranges::find(kNoArrays, name) != kNoArrays.end()) continue;
    const std::string path = key_below(prefix, name);
    const StorePath directory = item / path;
    if (!directory.is_directory() || (only_first && directory.is_closed())) continue;
    if (only_first && (!found.empty() || ++looked_at > kLookedAt)) return;
    if (found.size() > kMaxDirectories)
      throw Error(ErrorCode::limit, "too many directories of arrays").in_file(item.text());
    if (has_array(directory)) {
      found.push_back(path);
    } else if (depth < kMaxNameDepth && !only_first) {
      find_below(item, path, depth + 1, only_first, found);
    }
  }
}

}  // namespace

ArrayDirectories::ArrayDirectories(StorePath item, std::vector<std::string> arrays)
    : item_(std::move(item)), name_(item_.text()), arrays_(std::move(arrays)) {
  for (const std::string& array : arrays_) {
    if (array.empty() || is_inner_path(array)) continue;  // an empty name: the item is the array
    throw Error(ErrorCode::corrupt, "an array name that can't be a directory name")
        .in_file(name_)
        .in_tensor(array);
  }
}

void ArrayDirectories::walk(const std::function<void(const Entry&)>& visit) const {
  for (const std::string& array : arrays_) {
    const StorePath directory = array.empty() ? item_ : item_ / array;
    if (directory.is_directory()) walk_directory(array, 0, visit);
  }
}

void ArrayDirectories::walk_directory(const std::string& key, int depth,
                                      const std::function<void(const Entry&)>& visit) const {
  for (const std::string& name : (key.empty() ? item_ : item_ / key).list()) {
    const std::string path = key_below(key, name);
    const auto entry = (item_ / path).find();
    if (!entry) continue;
    if (entry->kind == FileKind::directory) {
      const bool is_array = std::ranges::binary_search(arrays_, path);
      if (depth < kMaxDepth && !is_array) walk_directory(path, depth + 1, visit);
    } else if (entry->kind == FileKind::regular) {
      Entry out;
      out.key = path;
      out.is_file = true;
      out.path = path;
      out.length_bytes = entry->identity.size_bytes;
      visit(out);
    }
  }
}

std::vector<std::string> find_array_directories(const StorePath& item, bool only_first) {
  std::vector<std::string> out;
  find_below(item, "", 0, only_first, out);
  std::ranges::sort(out);
  return out;
}

}  // namespace hfshard::format::orbax
