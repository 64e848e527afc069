#include "service/tree_source.h"

#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/text.h"
#include "bytes/tree_identity.h"
#include "format/formats.h"

#include "hfshard/error.h"

namespace hfshard {

void take_off(const std::string& prefix, Catalog& catalog) {
  for (TensorInfo& info : catalog.tensors) {
    if (!info.name.starts_with(prefix) || info.name == prefix) {
      throw Error(ErrorCode::bad_input,
                  fmt::format("the name does not begin with the prefix {}", quote(prefix)))
          .in_file(catalog.location)
          .in_tensor(info.name)
          .hint("--root KEY reads a subtree of a checkpoint, without what is beside it");
    }
    info.name.erase(0, prefix.size());
  }
}

TreeSource::TreeSource(std::shared_ptr<const Checkpoint> inner, const StorePath& place,
                       const std::string& root)
    : inner_(std::move(inner)), catalog_(inner_->catalog()) {
  if (!root.empty()) keep_below(root);
  TreeIdentity tree = identify_tree(place);
  CatalogFile file;
  file.path = std::move(tree.path);
  file.name = kWholeTree;
  file.size_bytes = tree.size_bytes;
  file.version = std::move(tree.version);
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

// The arrays below a key stand together, since they are sorted by name.
void TreeSource::keep_below(const std::string& root) {
  const std::string prefix = root + ".";
  const auto is_below = [&](const TensorInfo& info) { return info.name.starts_with(prefix); };
  std::vector<TensorInfo>& all = catalog_.tensors;
  const auto begin = std::ranges::find_if(all, is_below);
  const auto end = std::find_if_not(begin, all.end(), is_below);
  if (begin == end) {
    throw Error(ErrorCode::not_found,
                fmt::format("no {} is below {}", catalog_.wording.array, quote(root)))
        .in_file(catalog_.location)
        .hint("--root names a key of the tree, dotted, as hfshard inspect prints names");
  }
  first_ = static_cast<std::uint32_t>(begin - all.begin());
  all.erase(end, all.end());
  all.erase(all.begin(), begin);
  for (TensorInfo& info : all) info.name.erase(0, prefix.size());
  if (catalog_.shardings.empty()) return;
  const PerLeaf<ArraySharding> of_all = std::exchange(catalog_.shardings, {});
  for (std::size_t array = 0; array < all.size(); ++array)
    catalog_.shardings.push_back(of_all[first_ + array]);
}

}  // namespace hfshard
