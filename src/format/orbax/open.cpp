#include "format/orbax/open.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/text.h"
#include "bytes/store/store.h"
#include "catalog/grid.h"
#include "format/orbax/array_directories.h"
#include "format/orbax/array_keys.h"
#include "format/orbax/chunk_index.h"
#include "format/orbax/metadata.h"
#include "format/orbax/ocdbt/reader.h"
#include "format/orbax/other_files.h"
#include "format/orbax/piece.h"
#include "format/orbax/shardings.h"
#include "format/orbax/structure.h"
#include "format/orbax/tree.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/chunk_reader.h"
#include "format/unreadable.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::uint64_t kMaxTreeBytes = std::uint64_t{1} << 30;
// The most missing chunks of an array. Without a limit, small files could describe any number.
constexpr std::uint64_t kMaxAbsent = std::uint64_t{1} << 24;

// Returns the number of chunks in a grid. Empty on overflow.
std::optional<std::uint64_t> checked_count(const Shape& counts) {
  if (std::ranges::find(counts, std::uint64_t{0}) != counts.end()) return 0;
  std::optional<std::uint64_t> total = 1;
  for (const std::uint64_t count : counts) {
    if (total) total = checked_mul(*total, count);
  }
  return total;
}

// Returns the row-major number of a chunk. Empty outside of the grid.
std::optional<std::uint64_t> linear_index(const Shape& counts, const Shape& chunk) {
  std::uint64_t linear = 0;
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    if (chunk[axis] >= counts[axis]) return std::nullopt;
    linear = linear * counts[axis] + chunk[axis];
  }
  return linear;
}

// Returns the chunk with this row-major number.
Shape chunk_at(const Shape& counts, std::uint64_t linear) {
  Shape out = counts;
  for (std::size_t axis = counts.rank(); axis-- > 0;) {
    out[axis] = linear % counts[axis];
    linear /= counts[axis];
  }
  return out;
}

// Returns the pieces of an array and the codecs of each.
Cut cut_of(const zarr::Array& array) {
  Cut out;
  out.grid = {array.chunk, array.chunk, array.inner, array.order};
  if (!array.order.empty()) out.codecs.emplace_back("transpose");
  if (array.sharded) out.codecs.emplace_back("sharding_indexed");
  out.codecs.emplace_back("bytes");
  if (array.inner_crc32c) out.codecs.emplace_back("crc32c");
  if (array.compressor != zarr::Compressor::none)
    out.codecs.emplace_back(zarr::to_string(array.compressor));
  if (array.crc32c) out.codecs.emplace_back("crc32c");
  out.addressable = !array.sharded && !array.crc32c && array.compressor == zarr::Compressor::none;
  return out;
}

// Returns the program or Orbax class that wrote a checkpoint. The class is the one for the whole
// step, or that of the item.
std::string writer_of(const Json& attributes, const Json& step, const std::string& item) {
  const Json* custom = attributes.is_object() ? &attributes : step.find("custom_metadata");
  const Json* ours = custom != nullptr ? custom->find("hfshard") : nullptr;
  const Json* version = ours != nullptr ? ours->find("version") : nullptr;
  if (version != nullptr && version->is_string()) return "hfshard " + version->as_string();
  const Json* handler = step.find("item_handlers");
  if (handler != nullptr && handler->is_object()) {
    const Json::Object& all = handler->as_object();
    const Json* own = handler->find(item);
    handler = own == nullptr && all.size() == 1 ? &all.begin()->second : own;
  }
  if (handler == nullptr || !handler->is_string()) return {};
  const std::string& name = handler->as_string();
  return "Orbax (" + name.substr(name.rfind('.') + 1) + ")";
}

class OrbaxCheckpoint final : public Checkpoint {
 public:
  OrbaxCheckpoint(const Location& at, const Choice& choice);

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return chunks_->file_count(); }
  bool has_piece(std::uint32_t leaf, const Shape& chunk) const override;
  std::optional<PiecePlace> find_piece(std::uint32_t leaf, const Shape& chunk) const override;
  std::uint64_t scratch_bytes(std::uint32_t leaf, PieceSteps steps) const override {
    const ArrayKind& kind = kind_of(leaf);
    return zarr::chunk_scratch_bytes(kind.array, kind.form, chunks_->longest_bytes(leaf), steps);
  }
  std::uint64_t heap_bytes() const override {
    return hfshard::heap_bytes(catalog_) + hfshard::heap_bytes(kind_of_leaf_) +
           chunks_->heap_bytes() +
           (catalog_.structure ? hfshard::heap_bytes(*catalog_.structure) : 0);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t leaf, const Shape& chunk, PieceSteps steps,
                                          std::span<std::byte> scratch) const override;

 private:
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  struct Match {
    std::uint32_t leaf = 0;
    std::uint64_t chunk = 0;
  };

  std::shared_ptr<TreeStructure> read_tree(const Location& at, bool despite_loss);
  void name_arrays_by_keys(bool has_legacy);
  std::shared_ptr<TreeStructure> read_attributes(const Location& at, bool has_tree);
  void set_arrays(std::vector<std::string> names);
  void read_arrays(const std::vector<std::string>& without);
  void add_array(const Entry& entry, std::string_view path, bool is_v2,
                 const std::vector<std::string>& without);
  void leave_out_unreadable();
  bool is_left_out(std::string_view path) const;
  std::optional<std::uint32_t> find_array(std::string_view path) const;
  std::uint32_t kind_number(const Entry& entry, std::string_view path, bool is_v2);
  void read_chunks();
  void add_chunk(const Entry& entry);
  std::optional<Match> find_chunk(const Entry& entry) const;
  void check_length(const Entry& entry, const Match& found) const;
  void check_absent();
  const ArrayKind& kind_of(std::uint32_t leaf) const { return kinds_[kind_of_leaf_[leaf]]; }
  Error bad_key(std::string sentence, std::string_view key, std::string_view path) const;

  Tree tree_;  // without names; the catalog has them
  Catalog catalog_;
  std::unique_ptr<KeyValues> keys_;
  std::unique_ptr<ChunkIndex> chunks_;
  bool has_slashes_ = false;  // at the end of a name
  std::vector<std::uint32_t> kind_of_leaf_;
  std::vector<ArrayKind> kinds_;                                 // by number of the cut
  std::unordered_map<std::string, std::uint32_t> kind_numbers_;  // by text of the metadata
};

OrbaxCheckpoint::OrbaxCheckpoint(const Location& at, const Choice& choice) {
  catalog_.wording = {
      .kind = "orbax", .array = "leaf", .arrays = "leaves", .name = "path", .has_cuts = true};
  const std::shared_ptr<TreeStructure> structure = read_tree(at, choice.despite_loss);
  // There are two walks, since the chunks of an array can come before its metadata.
  read_arrays(choice.without);
  read_chunks();
  check_absent();
  const Json shardings = read_shardings(at.item, catalog_);
  if (structure) add_shardings(shardings, *structure);
  catalog_.structure = structure;
  std::vector<std::string> names;
  for (const TensorInfo& array : catalog_.tensors) names.push_back(array.name);
  if (const auto others = other_files(at.item, names); !others.empty()) {
    catalog_.notes.push_back(fmt::format(
        "not read, since they are no part of the tree: {} in its directory", quoted_list(others)));
  }
  if (!at.step || at.item == *at.step) return;
  if (const auto deleted = being_deleted(*at.step)) {
    catalog_.notes.push_back(fmt::format(
        "left out: the item {}, which Orbax has begun to delete; its delete() finishes that",
        quote(*deleted)));
  }
}

// -- The tree

void OrbaxCheckpoint::set_arrays(std::vector<std::string> names) {
  catalog_.tensors.resize(names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    has_slashes_ = has_slashes_ || names[i].ends_with('/');
    catalog_.tensors[i].name = std::move(names[i]);
  }
  kind_of_leaf_.assign(catalog_.tensors.size(), kUnknown);
}

std::shared_ptr<TreeStructure> OrbaxCheckpoint::read_tree(const Location& at, bool despite_loss) {
  const StorePath path = at.item / kTreeFile;
  const bool has_database = (at.item / kManifestFile).exists();
  const bool has_legacy = (at.item / kLegacyFile).exists();
  const bool has_tree = path.exists() || (has_database && !has_legacy);
  if (has_tree) tree_ = parse_tree(path.read(kMaxTreeBytes), path.text());
  const bool has_arrays = has_database || !has_tree || !tree_.arrays.empty();
  if (tree_.use_ocdbt.value_or(has_database) && has_arrays) {
    keys_ = std::make_unique<ocdbt::Database>(at.item);
  } else {
    keys_ = std::make_unique<ArrayDirectories>(
        at.item, has_tree ? directory_names(tree_.arrays) : find_array_directories(at.item));
  }
  chunks_ = std::make_unique<ChunkIndex>(at.item, keys_->name(), despite_loss);
  if (has_tree) {
    set_arrays(std::exchange(tree_.arrays, {}));
  } else {
    name_arrays_by_keys(has_legacy);
  }
  return read_attributes(at, has_tree);
}

// Without a tree, every stored array counts, under its stored name.
void OrbaxCheckpoint::name_arrays_by_keys(bool has_legacy) {
  std::vector<std::string> names;
  keys_->walk([&](const Entry& entry) {
    for (const std::string_view file : {kArrayFile, kArrayFileV2}) {
      if (const auto name = array_of_key(entry.key, file)) names.emplace_back(*name);
    }
  });
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  set_arrays(std::move(names));
  catalog_.notes.push_back(
      fmt::format("there is no {}: the arrays are those whose metadata are there", kTreeFile));
  if (!has_legacy) return;
  catalog_.notes.push_back(
      fmt::format("not read: values that the file {} itself holds (msgpack, of an older Orbax)",
                  quote(kLegacyFile)));
}

// Returns everything in the tree except its arrays, if there is a tree.
std::shared_ptr<TreeStructure> OrbaxCheckpoint::read_attributes(const Location& at, bool has_tree) {
  Json step;
  if (at.step) {
    const StorePath path = *at.step / kStepFile;
    if (path.exists()) step = parse_metadata(path.read(), path.text());
  }
  std::shared_ptr<TreeStructure> structure;
  if (has_tree) structure = read_structure(at, tree_, step, catalog_.notes);
  catalog_.attributes = std::move(tree_.custom_metadata);
  const Json* custom = step.find("custom_metadata");
  if (catalog_.attributes.is_null() && custom != nullptr) catalog_.attributes = *custom;
  if (catalog_.attributes.is_null()) catalog_.attributes = Json::Object();
  catalog_.writer = writer_of(catalog_.attributes, step, entry_name(at.item.name()));
  return structure;
}

// -- Arrays

std::uint32_t OrbaxCheckpoint::kind_number(const Entry& entry, std::string_view path, bool is_v2) {
  const std::string text = chunks_->load(entry);
  const auto next = static_cast<std::uint32_t>(kinds_.size());
  // Leaves of a model share a few dozen texts.
  const auto [known, fresh] = kind_numbers_.try_emplace((is_v2 ? "2" : "3") + text, next);
  if (!fresh) return known->second;
  const std::string file = keys_->file_of(entry.key);
  ArrayKind kind;
  kind.array = is_v2 ? zarr::parse_array_v2(text, file, path) : zarr::parse_array(text, file, path);
  kind.array.may_lack = tree_.may_lack && kind.array.fill.has_value();
  kind.form = kind.array.form();
  kind.stored = kind.array.stored_bytes();
  kind.counts = chunk_counts(kind.array.shape, kind.array.chunk);
  const auto total = checked_count(kind.counts);
  if (!total)
    throw Error(ErrorCode::corrupt, "an array of more than 2^64 chunks")
        .in_file(file)
        .in_tensor(path);
  kind.chunks = *total;
  catalog_.cuts.push_back(cut_of(kind.array));
  kinds_.push_back(std::move(kind));
  return next;
}

void OrbaxCheckpoint::add_array(const Entry& entry, std::string_view path, bool is_v2,
                                const std::vector<std::string>& without) {
  const auto leaf = find_array(path);
  if (!leaf && keys_->may_hold_more()) return;
  if (!leaf) {
    throw Error(ErrorCode::corrupt,
                fmt::format("the index has an array that {} does not list", kTreeFile))
        .in_file(keys_->name())
        .in_tensor(path);
  }
  // If an array has two descriptions, the tree's zarr version decides.
  if (kind_of_leaf_[*leaf] != kUnknown && is_v2 == tree_.use_zarr3) return;
  std::uint32_t kind = kUnknown;
  try {
    kind = kind_number(entry, path, is_v2);
  } catch (const Error& error) {
    const std::string& name = catalog_.tensors[*leaf].name;
    catalog_.unreadable.push_back(accept_unreadable(without, name, error));
    return;
  }
  kind_of_leaf_[*leaf] = kind;
  TensorInfo& info = catalog_.tensors[*leaf];
  info.dtype = kinds_[kind].array.dtype;
  info.shape = kinds_[kind].array.shape;
  info.cut = kind;
}

bool OrbaxCheckpoint::is_left_out(std::string_view path) const {
  const auto has = [&](std::string_view name) {
    return std::ranges::binary_search(catalog_.unreadable, name, {}, &UnreadableArray::name);
  };
  return has(path) || (has_slashes_ && has(std::string(path) + "/"));
}

// Returns the array with these keys. Its name can end with their slash.
std::optional<std::uint32_t> OrbaxCheckpoint::find_array(std::string_view path) const {
  const auto found = catalog_.find(path);
  return found || !has_slashes_ ? found : catalog_.find(std::string(path) + "/");
}

// The names aren't arrays of the catalog any more, and nothing below them is a chunk.
void OrbaxCheckpoint::leave_out_unreadable() {
  std::vector<UnreadableArray>& arrays = catalog_.unreadable;
  if (arrays.empty()) return;
  std::ranges::stable_sort(arrays, {}, &UnreadableArray::name);
  const auto same_name = [](const UnreadableArray& a, const UnreadableArray& b) {
    return a.name == b.name;
  };
  arrays.erase(std::unique(arrays.begin(), arrays.end(), same_name), arrays.end());
  // An array with another description that can be read stays.
  std::erase_if(arrays, [&](const UnreadableArray& array) {
    return kind_of_leaf_[catalog_.find(array.name).value()] != kUnknown;
  });
  std::vector<TensorInfo> kept;
  std::vector<std::uint32_t> kinds;
  for (std::size_t i = 0; i < catalog_.tensors.size(); ++i) {
    if (is_left_out(catalog_.tensors[i].name)) continue;
    kept.push_back(std::move(catalog_.tensors[i]));
    kinds.push_back(kind_of_leaf_[i]);
  }
  catalog_.tensors = std::move(kept);
  kind_of_leaf_ = std::move(kinds);
}

void OrbaxCheckpoint::read_arrays(const std::vector<std::string>& without) {
  keys_->walk([&](const Entry& entry) {
    if (const auto path = array_of_key(entry.key, kArrayFile))
      add_array(entry, *path, false, without);
    if (const auto path = array_of_key(entry.key, kArrayFileV2))
      add_array(entry, *path, true, without);
  });
  kind_numbers_.clear();
  leave_out_unreadable();
  for (std::size_t i = 0; i < catalog_.tensors.size(); ++i) {
    if (kind_of_leaf_[i] != kUnknown) continue;
    const std::string key = array_key(catalog_.tensors[i].name,
                                      std::string(tree_.use_zarr3 ? kArrayFile : kArrayFileV2));
    throw Error(ErrorCode::corrupt,
                fmt::format("a leaf of {} has no {} or {}", kTreeFile, kArrayFile, kArrayFileV2))
        .in_file(keys_->file_of(key))
        .in_tensor(catalog_.tensors[i].name);
  }
}

// -- Chunks

Error OrbaxCheckpoint::bad_key(std::string sentence, std::string_view key,
                               std::string_view path) const {
  Error error(ErrorCode::corrupt, std::move(sentence));
  error.in_file(keys_->file_of(key)).in_tensor(path);
  return error;
}

// Array names can have slashes, as chunk keys do. A key belongs to an array if the rest of it is
// the key of a chunk. Empty for keys outside of arrays.
std::optional<OrbaxCheckpoint::Match> OrbaxCheckpoint::find_chunk(const Entry& entry) const {
  const std::string_view key = entry.key;
  std::optional<std::uint32_t> nearest;
  std::string why = fmt::format("the index has the key {}, which is no chunk", quote(key));
  for (std::size_t end = 0; end != std::string_view::npos; end = key.find('/', end + 1)) {
    if (is_left_out(key.substr(0, end))) return std::nullopt;
    const auto leaf = find_array(key.substr(0, end));
    if (!leaf) continue;
    nearest = leaf;
    const ArrayKind& kind = kind_of(*leaf);
    const std::string_view rest = key.substr(end == 0 ? 0 : end + 1);
    const auto chunk = zarr::parse_chunk_key(kind.array.keys, kind.counts.rank(), rest);
    if (!chunk) continue;
    if (const auto linear = linear_index(kind.counts, *chunk)) return Match{*leaf, *linear};
    why = fmt::format("chunk {} is outside of the grid {}", quote(rest), to_string(kind.counts));
  }
  if (keys_->may_hold_more()) return std::nullopt;
  if (nearest) throw bad_key(why, key, catalog_.tensors[*nearest].name);
  throw bad_key(fmt::format("the index has an array that {} does not list", kTreeFile), key,
                key.substr(0, key.find('/')));
}

void OrbaxCheckpoint::check_length(const Entry& entry, const Match& found) const {
  const ArrayKind& kind = kind_of(found.leaf);
  auto [least, most] = kind.stored;
  if (entry.length_bytes < least)
    least = kind.array.least_stored_bytes(chunk_at(kind.counts, found.chunk));
  if (entry.length_bytes >= least && entry.length_bytes <= most) return;
  throw bad_key(
      fmt::format("chunk {} has {} bytes; {} are wanted", quote(entry.key), entry.length_bytes,
                  least == most ? std::to_string(most) : fmt::format("{} to {}", least, most)),
      entry.key, catalog_.tensors[found.leaf].name);
}

void OrbaxCheckpoint::add_chunk(const Entry& entry) {
  for (const std::string_view file : {kArrayFile, kArrayFileV2}) {
    const auto path = array_of_key(entry.key, file);
    if (path && find_array(*path)) return;
  }
  if (is_attributes(entry.key)) return;
  const auto found = find_chunk(entry);
  if (!found) return;
  check_length(entry, *found);
  chunks_->add(entry, found->leaf, found->chunk, catalog_.tensors[found->leaf].name);
}

void OrbaxCheckpoint::read_chunks() {
  keys_->walk([&](const Entry& entry) { add_chunk(entry); });
  chunks_->finish(catalog_.tensors.size());
}

void OrbaxCheckpoint::check_absent() {
  std::uint64_t absent = 0;
  for (std::uint32_t leaf = 0; leaf < catalog_.tensors.size(); ++leaf) {
    const ArrayKind& kind = kind_of(leaf);
    if (!kind.array.may_lack) continue;
    const std::uint64_t lacking = kind.chunks - chunks_->count(leaf);
    absent += lacking;
    if (lacking > kMaxAbsent || absent > kMaxAbsent) {
      throw Error(
          ErrorCode::limit,
          fmt::format("more than {} chunks are not stored, and would be fill values", kMaxAbsent))
          .in_file(keys_->name())
          .in_tensor(catalog_.tensors[leaf].name);
    }
  }
  if (absent == 0) return;
  catalog_.notes.push_back(
      fmt::format("{} {} not stored: {} allows it, so that they are fill values", absent,
                  absent == 1 ? "chunk is" : "chunks are", kTreeFile));
}

bool OrbaxCheckpoint::has_piece(std::uint32_t leaf, const Shape& chunk) const {
  const ArrayKind& kind = kind_of(leaf);
  HFSHARD_CHECK(chunk.rank() == kind.counts.rank());
  const auto linear = linear_index(kind.counts, chunk);
  return linear && (kind.array.may_lack || chunks_->find(leaf, *linear) != nullptr);
}

std::optional<PiecePlace> OrbaxCheckpoint::find_piece(std::uint32_t leaf,
                                                      const Shape& chunk) const {
  const ArrayKind& kind = kind_of(leaf);
  const std::string key =
      array_key(catalog_.tensors[leaf].name, zarr::chunk_key(kind.array.keys, chunk));
  const auto linear = linear_index(kind.counts, chunk);
  const Slot* slot = linear ? chunks_->find(leaf, *linear) : nullptr;
  if (slot == nullptr) return PiecePlace{keys_->file_of(key), std::nullopt};
  const std::uint64_t begin = slot->file == Slot::kInline ? 0 : slot->offset_bytes;
  return PiecePlace{chunks_->file_of(*slot, key), ByteRange{begin, begin + slot->length_bytes}};
}

std::unique_ptr<PieceReader> OrbaxCheckpoint::open_piece(std::uint32_t leaf, const Shape& chunk,
                                                         PieceSteps steps,
                                                         std::span<std::byte> scratch) const {
  const ArrayKind& kind = kind_of(leaf);
  const std::string& name = catalog_.tensors[leaf].name;
  const std::string key = array_key(name, zarr::chunk_key(kind.array.keys, chunk));
  HFSHARD_CHECK(chunk.rank() == kind.counts.rank());
  const auto linear = linear_index(kind.counts, chunk);
  const Slot* slot = linear ? chunks_->find(leaf, *linear) : nullptr;
  if (slot == nullptr && linear && kind.array.may_lack) return open_fill(kind.array);
  if (slot == nullptr) {
    throw Error(ErrorCode::not_found, fmt::format("chunk {} is missing", quote(key)))
        .in_file(keys_->file_of(key))
        .in_tensor(name);
  }
  try {
    return open_stored(chunks_->open(*slot, key), kind, chunk, steps, scratch, name);
  } catch (Error& error) {  // only here is the leaf known
    throw error.in_tensor(name);
  }
}

}  // namespace

std::unique_ptr<Checkpoint> open_orbax(const StorePath& path, const Choice& choice) {
  return std::make_unique<OrbaxCheckpoint>(locate(path, choice), choice);
}

}  // namespace hfshard::format::orbax
