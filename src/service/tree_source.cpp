#include "service/tree_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "bytes/local/files.h"
#include "bytes/store/tree_identity.h"
#include "format/formats.h"

#include "hfshard/error.h"

namespace hfshard {

void take_off(const std::string& prefix, Catalog& catalog) {
  if (prefix.empty()) return;
  for (TensorInfo& info : catalog.tensors) {
    if (!info.name.starts_with(prefix) || info.name == prefix) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the name doesn't begin with the prefix {}", quote(prefix)))
          .in_file(catalog.location)
          .in_tensor(info.name)
          .hint("pass --root KEY to read only a subtree of a checkpoint");
    }
    info.name.erase(0, prefix.size());
  }
}

std::vector<std::string> globs_below(const std::string& root, std::vector<std::string> globs) {
  if (root.empty()) return globs;
  for (std::string& glob : globs) glob.insert(0, root + ".");
  return globs;
}

TreeSource::TreeSource(std::shared_ptr<const Checkpoint> inner, const StorePath& place,
                       const std::string& root)
    : inner_(std::move(inner)), catalog_(inner_->catalog()) {
  if (!root.empty()) keep_below(root);
  TreeIdentity tree = identify_tree(place);
  CatalogFile file;
  file.path = std::move(tree.path);
  file.name = kWholeTree;
  file.size_bytes = tree.identity.size_bytes;
  file.version = std::move(tree.identity.version);
  file.inodes = std::move(tree.identity.inodes);
  file.header_sha256 = std::move(tree.content_sha256);
  catalog_.files = {std::move(file)};
  catalog_.location = place.name();
  catalog_.directory = place;
}

void TreeSource::carry(const StorePath& directory, std::string config_text) {
  catalog_.side_files = model_side_files(directory);
  catalog_.directory = directory;
  catalog_.config_text = std::move(config_text);
}

void TreeSource::carry(const TreeOptions& asked) { take_config(asked, catalog_); }

void take_config(const TreeOptions& asked, Catalog& catalog) {
  catalog.config_text = *asked.config_text;
  if (!exists(asked.config_name)) {
    std::erase(catalog.side_files, "config.json");  // another one
    return;
  }
  const std::string directory = parent_path(asked.config_name);
  catalog.side_files = model_side_files(directory);
  catalog.directory = directory;
}

bool TreeSource::has_piece(std::uint32_t array, const Shape& piece) const {
  return inner_->has_piece(first_ + array, piece);
}

std::optional<PiecePlace> TreeSource::find_piece(std::uint32_t array, const Shape& piece) const {
  return inner_->find_piece(first_ + array, piece);
}

std::unique_ptr<PieceReader> TreeSource::open_piece(std::uint32_t array, const Shape& piece,
                                                    PieceSteps steps,
                                                    std::span<std::byte> scratch) const {
  return inner_->open_piece(first_ + array, piece, steps, scratch);
}

std::uint64_t TreeSource::scratch_bytes(std::uint32_t array, PieceSteps steps) const {
  return inner_->scratch_bytes(first_ + array, steps);
}

std::uint64_t TreeSource::heap_bytes() const {
  return inner_->heap_bytes() + hfshard::heap_bytes(catalog_);
}

// Arrays below a key are contiguous, since arrays are sorted by name.
void TreeSource::keep_below(const std::string& root) {
  const std::string prefix = root + ".";
  const auto is_below = [&](const TensorInfo& info) { return info.name.starts_with(prefix); };
  std::vector<TensorInfo>& all = catalog_.tensors;
  const auto begin = std::ranges::find_if(all, is_below);
  const auto end = std::find_if_not(begin, all.end(), is_below);
  if (begin == end) {
    throw Error(ErrorCode::not_found, fmt::format("the checkpoint has no {} below {}",
                                                  catalog_.wording.array, quote(root)))
        .in_file(catalog_.location)
        .hint("pass --root with a key of the tree, dotted, as hfshard inspect prints names");
  }
  first_ = static_cast<std::uint32_t>(begin - all.begin());
  all.erase(end, all.end());
  all.erase(all.begin(), begin);
  for (TensorInfo& info : all) info.name.erase(0, prefix.size());
  std::erase_if(catalog_.unreadable,
                [&](const UnreadableArray& array) { return !array.name.starts_with(prefix); });
  for (UnreadableArray& array : catalog_.unreadable) array.name.erase(0, prefix.size());
  if (catalog_.structure != nullptr)
    catalog_.structure = std::make_shared<const TreeStructure>(subtree(*catalog_.structure, root));
  keep_objects_below(prefix);
  if (catalog_.shardings.empty()) return;
  const PerLeaf<ArraySharding> of_all = std::exchange(catalog_.shardings, {});
  for (std::size_t array = 0; array < all.size(); ++array)
    catalog_.shardings.push_back(of_all[first_ + array]);
}

// In the nested state, removes the keys above the root. Removes the whole entry if its keys don't
// show where the root ends.
void TreeSource::keep_objects_below(const std::string& prefix) {
  const auto is_other = [&](const auto& item) { return !item.name.starts_with(prefix); };
  std::erase_if(catalog_.objects, is_other);
  for (ObjectInfo& object : catalog_.objects) object.name.erase(0, prefix.size());
  std::vector<NestedName> kept;
  bool was_list = false;
  for (NestedName& nested : catalog_.nested) {
    if (is_other(nested)) continue;
    const Json::Array keys = parse_json(nested.keys, nested.name).as_array();
    std::string above;
    std::size_t first = 0;
    while (first < keys.size() && above.size() < prefix.size()) {
      const Json& key = keys[first++];
      above += (key.is_string() ? key.as_string() : std::to_string(key.as_uint())) + ".";
    }
    std::string name = nested.name.substr(prefix.size());
    Json::Array rest(keys.begin() + static_cast<std::ptrdiff_t>(first), keys.end());
    if (above != prefix || rest.empty()) continue;
    // A state is a dict, so the indices of a list at the root become text.
    was_list = was_list || !rest.front().is_string();
    if (!rest.front().is_string()) rest.front() = std::to_string(rest.front().as_uint());
    if (rest.size() > 1 || rest.front() != Json(name))
      kept.push_back({std::move(name), dump_json(rest)});
  }
  catalog_.nested = std::move(kept);
  if (!was_list) return;
  catalog_.notes.push_back(root_becomes_dict(quote(prefix.substr(0, prefix.size() - 1))));
}

std::string root_becomes_dict(std::string_view list) {
  return fmt::format("{} is a list, and the root of a state is a dict: its indices become keys",
                     list);
}

}  // namespace hfshard
