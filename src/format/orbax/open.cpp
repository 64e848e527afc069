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
#include "base/coding.h"
#include "base/heap.h"
#include "base/text.h"
#include "bytes/open_files.h"
#include "bytes/source.h"
#include "bytes/store.h"
#include "catalog/grid.h"
#include "format/orbax/metadata.h"
#include "format/orbax/ocdbt/reader.h"
#include "format/orbax/tree.h"
#include "format/orbax/zarr/array.h"
#include "format/orbax/zarr/chunk_reader.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {
namespace {

constexpr std::uint64_t kMaxTreeBytes = std::uint64_t{1} << 30;
constexpr std::uint32_t kInline = UINT32_MAX;

// Data files of a database: sizes are known, and some are kept open.
class DatabaseFiles {
 public:
  explicit DatabaseFiles(StorePath root) : root_(std::move(root)) {}

  // Number of a file, by its path below the root; looked up on first use.
  std::uint32_t number(std::string_view path) {
    if (!files_.empty() && last_ == path) return last_number_;
    const auto [found, fresh] =
        numbers_.try_emplace(std::string(path), static_cast<std::uint32_t>(names_.size()));
    if (fresh) {
      files_.push_back(root_ / path);
      const auto entry = files_.back().find();
      names_.push_back(files_.back().text());
      if (!entry || entry->kind == FileKind::dangling) {
        throw Error(ErrorCode::not_found, "a data file of the checkpoint is missing")
            .in_file(names_.back());
      }
      sizes_.push_back(entry->identity.size_bytes);
    }
    last_ = path;
    return last_number_ = found->second;
  }

  const std::string& name(std::uint32_t file) const { return names_[file]; }
  std::uint64_t size_bytes(std::uint32_t file) const { return sizes_[file]; }

  std::shared_ptr<const SourceFile> open(std::uint32_t file) const {
    return open_.open(file, files_[file]);
  }

 private:
  StorePath root_;
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<StorePath> files_;
  std::vector<std::string> names_;  // as in errors
  std::vector<std::uint64_t> sizes_;
  std::string last_;
  std::uint32_t last_number_ = 0;
  OpenFiles open_;
};

// Where a chunk is.
struct Slot {
  std::uint64_t chunk = 0;         // linear index in the grid
  std::uint64_t offset_bytes = 0;  // in the file, or in the inline values
  std::uint64_t length_bytes = 0;
  std::uint32_t file = 0;
};

// What one text of zarr.json says; leaves of a model share a few dozen of them.
struct ArrayKind {
  zarr::Array array;
  PieceForm form;
  zarr::Array::StoredBytes stored;
  Shape counts;
  std::uint64_t chunks = 0;
};

// The chunks of a leaf, as a part of all slots; keys of one leaf follow each other in the database.
struct LeafIndex {
  static constexpr std::uint32_t kUnknown = UINT32_MAX;
  std::uint32_t kind = kUnknown;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t longest_bytes = 0;  // of the stored chunks
};

// Number of chunks of a grid; nothing on overflow.
std::optional<std::uint64_t> checked_count(const Shape& counts) {
  if (std::ranges::find(counts, std::uint64_t{0}) != counts.end()) return 0;
  std::optional<std::uint64_t> total = 1;
  for (const std::uint64_t count : counts) {
    if (total) total = checked_mul(*total, count);
  }
  return total;
}

// Row-major number of a chunk; nothing outside of the grid.
std::optional<std::uint64_t> linear_index(const Shape& counts, const Shape& chunk) {
  std::uint64_t linear = 0;
  for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
    if (chunk[axis] >= counts[axis]) return std::nullopt;
    linear = linear * counts[axis] + chunk[axis];
  }
  return linear;
}

// The pieces of an array and the codecs of each.
Cut cut_of(const zarr::Array& array) {
  Cut out;
  out.grid = {array.chunk, array.chunk, array.inner, array.order};
  if (!array.order.empty()) out.codecs.emplace_back("transpose");
  if (array.sharded) out.codecs.emplace_back("sharding_indexed");
  out.codecs.emplace_back("bytes");
  if (array.zstd) out.codecs.emplace_back("zstd");
  if (array.crc32c) out.codecs.emplace_back("crc32c");
  return out;
}

// The bytes of one stored chunk: a range of a data file, or of the values in the index.
struct StoredChunk final : Source {
  const Slot* slot = nullptr;
  std::shared_ptr<const SourceFile> file;  // null: `bytes`
  std::span<const std::byte> bytes;
  const std::string* file_name = nullptr;
  std::uint64_t file_bytes = 0;

  std::uint64_t size_bytes() const override { return slot->length_bytes; }
  const std::string& name() const override { return *file_name; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override {
    const std::uint64_t at = slot->offset_bytes + offset_bytes;
    if (file) return file->read_at(at, out);
    std::ranges::copy(bytes.subspan(at, out.size()), out.begin());
  }
};

// A chunk that is read, and what errors say about it.
class OrbaxPiece final : public PieceReader {
 public:
  OrbaxPiece(StoredChunk stored, const ArrayKind& kind, const Shape& chunk, PieceSteps steps,
             std::span<std::byte> scratch, const std::string& leaf)
      : stored_(std::move(stored)),
        kind_(kind),
        chunk_(chunk),
        leaf_(leaf),
        reader_(kind.array, kind.form, chunk_, stored_, steps, scratch) {}
  void read(std::span<std::byte> out) override {
    named([&] { reader_.read(out); });
  }
  void skip(std::uint64_t bytes) override {
    named([&] { reader_.skip(bytes); });
  }

 private:
  template <typename Action>
  void named(const Action& action) const {
    try {
      action();
    } catch (Error& error) {
      if (!error.file().empty()) throw error.in_tensor(leaf_);
      if (error.code() == ErrorCode::internal) throw;
      // The decoder knows ranges within the chunk only; the file's name and range are known here.
      const ByteRange within = error.range().value_or(ByteRange{0, stored_.size_bytes()});
      const std::uint64_t begin = stored_.slot->offset_bytes;
      throw Error(error.code(),
                  fmt::format("chunk {}: {}", quote(zarr::chunk_key(kind_.array.keys, chunk_)),
                              error.sentence()))
          .in_file(stored_.name())
          .in_tensor(leaf_)
          .at({begin + within.begin, begin + within.end}, stored_.file_bytes);
    }
  }

  const StoredChunk stored_;
  const ArrayKind& kind_;
  const Shape chunk_;
  const std::string& leaf_;
  zarr::ChunkReader reader_;
};

class OrbaxCheckpoint final : public Checkpoint {
 public:
  explicit OrbaxCheckpoint(const Location& at);

  const Catalog& catalog() const override { return catalog_; }
  bool has_piece(std::uint32_t leaf, const Shape& chunk) const override {
    return find(leaf, chunk) != nullptr;
  }
  std::uint64_t scratch_bytes(std::uint32_t leaf, PieceSteps steps) const override {
    const ArrayKind& kind = kind_of(leaf);
    return zarr::chunk_scratch_bytes(kind.array, kind.form, index_[leaf].longest_bytes, steps);
  }
  std::uint64_t heap_bytes() const override {
    return hfshard::heap_bytes(catalog_) + hfshard::heap_bytes(index_) +
           hfshard::heap_bytes(slots_) + hfshard::heap_bytes(inline_bytes_);
  }
  std::unique_ptr<PieceReader> open_piece(std::uint32_t leaf, const Shape& chunk, PieceSteps steps,
                                          std::span<std::byte> scratch) const override;

 private:
  void read_tree(const Location& at);
  void read_arrays(const ocdbt::Database& database);
  void read_chunks(const ocdbt::Database& database);
  void add_array(const ocdbt::Entry& entry, std::string_view path, std::string_view database);
  void add_chunk(const ocdbt::Entry& entry, std::string_view database);
  std::uint32_t leaf_number(std::string_view path, std::string_view database) const;
  const ArrayKind& kind_of(std::uint32_t leaf) const { return kinds_[index_[leaf].kind]; }
  std::uint32_t kind_number(const std::string& text, std::string_view path,
                            std::string_view database);
  Slot place(const ocdbt::Entry& entry, std::string_view path);
  const Slot* find(std::uint32_t leaf, const Shape& chunk) const;
  std::string load(const ocdbt::Entry& entry);

  DatabaseFiles files_;
  std::string inline_name_;
  std::string inline_bytes_;
  Catalog catalog_;
  std::vector<LeafIndex> index_;
  std::vector<ArrayKind> kinds_;                                 // by number of the cut
  std::unordered_map<std::string, std::uint32_t> kind_numbers_;  // by text of zarr.json
  std::vector<Slot> slots_;
};

OrbaxCheckpoint::OrbaxCheckpoint(const Location& at) : files_(at.item) {
  catalog_.wording = {
      .kind = "orbax", .array = "leaf", .arrays = "leaves", .name = "path", .has_cuts = true};
  read_tree(at);
  const ocdbt::Database database(at.item);
  inline_name_ = database.name();
  // Two walks, since the chunks of an array come before its zarr.json.
  read_arrays(database);
  read_chunks(database);
}

void OrbaxCheckpoint::read_tree(const Location& at) {
  const StorePath path = at.item / kTreeFile;
  Tree tree = parse_tree(path.read(kMaxTreeBytes), path.text());
  catalog_.tensors.resize(tree.arrays.size());
  index_.resize(tree.arrays.size());
  for (std::size_t i = 0; i < catalog_.tensors.size(); ++i)
    catalog_.tensors[i].name = std::move(tree.arrays[i]);
  catalog_.attributes = std::move(tree.custom_metadata);
  if (catalog_.attributes.is_null() && at.step) {
    const StorePath step = *at.step / kStepFile;
    if (step.exists()) {
      const Json json = parse_metadata(step.read(), step.text());
      if (const Json* custom = json.find("custom_metadata")) catalog_.attributes = *custom;
    }
  }
  if (catalog_.attributes.is_null()) catalog_.attributes = Json::Object();
}

std::uint32_t OrbaxCheckpoint::leaf_number(std::string_view path, std::string_view database) const {
  const auto found = catalog_.find(path);
  if (!found) {
    throw Error(ErrorCode::corrupt, "the index has an array that _METADATA does not list")
        .in_file(database)
        .in_tensor(path);
  }
  return *found;
}

// The value of a small entry.
std::string OrbaxCheckpoint::load(const ocdbt::Entry& entry) {
  if (entry.is_inline) return std::string(entry.inline_bytes);
  const std::uint32_t file = files_.number(entry.path);
  if (!in_range(entry.offset_bytes, entry.length_bytes, files_.size_bytes(file))) {
    throw Error(ErrorCode::corrupt, "array metadata passes the end of its data file")
        .in_file(files_.name(file))
        .at({entry.offset_bytes, entry.offset_bytes + entry.length_bytes}, files_.size_bytes(file));
  }
  if (entry.length_bytes > ocdbt::kMaxInlineBytes) {
    throw Error(ErrorCode::limit, fmt::format("array metadata of {} bytes; at most {} are read",
                                              entry.length_bytes, ocdbt::kMaxInlineBytes))
        .in_file(files_.name(file));
  }
  std::vector<std::byte> bytes(entry.length_bytes);
  files_.open(file)->read_at(entry.offset_bytes, bytes);
  return std::string(as_text(bytes));
}

std::uint32_t OrbaxCheckpoint::kind_number(const std::string& text, std::string_view path,
                                           std::string_view database) {
  const auto next = static_cast<std::uint32_t>(kinds_.size());
  if (const auto known = kind_numbers_.find(text); known != kind_numbers_.end()) {
    return known->second;
  }
  ArrayKind kind;
  kind.array = zarr::parse_array(text, database, path);
  kind.form = kind.array.form();
  kind.stored = kind.array.stored_bytes();
  kind.counts = chunk_counts(kind.array.shape, kind.array.chunk);
  const auto total = checked_count(kind.counts);
  if (!total) {
    throw Error(ErrorCode::corrupt, "an array of more than 2^64 chunks")
        .in_file(database)
        .in_tensor(path);
  }
  kind.chunks = *total;
  catalog_.cuts.push_back(cut_of(kind.array));
  kinds_.push_back(std::move(kind));
  kind_numbers_.emplace(text, next);
  return next;
}

void OrbaxCheckpoint::add_array(const ocdbt::Entry& entry, std::string_view path,
                                std::string_view database) {
  const std::uint32_t number = leaf_number(path, database);
  const std::uint32_t kind = kind_number(load(entry), path, database);
  index_[number].kind = kind;
  TensorInfo& info = catalog_.tensors[number];
  info.dtype = kinds_[kind].array.dtype;
  info.shape = kinds_[kind].array.shape;
  info.cut = kind;
}

void OrbaxCheckpoint::read_arrays(const ocdbt::Database& database) {
  const std::string ending = "/" + std::string(kArrayFile);
  database.walk([&](const ocdbt::Entry& entry) {
    if (entry.key.ends_with("/.zarray")) {
      throw Error(ErrorCode::unsupported, "an array of zarr v2 is not supported")
          .in_file(database.name())
          .in_tensor(entry.key.substr(0, entry.key.rfind('/')));
    }
    if (!entry.key.ends_with(ending)) return;
    const std::string_view path = entry.key.substr(0, entry.key.size() - ending.size());
    if (path.find('/') != std::string_view::npos) {
      throw Error(ErrorCode::unsupported, "an array name with a slash is not supported")
          .in_file(database.name())
          .in_tensor(path);
    }
    add_array(entry, path, database.name());
  });
  kind_numbers_.clear();
  for (std::size_t i = 0; i < catalog_.tensors.size(); ++i) {
    if (index_[i].kind == LeafIndex::kUnknown) {
      throw Error(ErrorCode::corrupt, "a leaf of _METADATA has no zarr.json in the index")
          .in_file(database.name())
          .in_tensor(catalog_.tensors[i].name);
    }
  }
}

// Where an entry's bytes are; its data file must hold them.
Slot OrbaxCheckpoint::place(const ocdbt::Entry& entry, std::string_view path) {
  Slot slot;
  slot.length_bytes = entry.length_bytes;
  if (entry.is_inline) {
    slot.file = kInline;
    slot.offset_bytes = inline_bytes_.size();
    inline_bytes_ += entry.inline_bytes;
    return slot;
  }
  slot.file = files_.number(entry.path);
  slot.offset_bytes = entry.offset_bytes;
  const std::uint64_t total = files_.size_bytes(slot.file);
  if (!in_range(entry.offset_bytes, entry.length_bytes, total)) {
    throw Error(
        ErrorCode::corrupt,
        fmt::format("the chunk with key {} passes the end of its data file", quote(entry.key)))
        .in_file(files_.name(slot.file))
        .in_tensor(path)
        .at({entry.offset_bytes, entry.offset_bytes + entry.length_bytes}, total);
  }
  return slot;
}

void OrbaxCheckpoint::add_chunk(const ocdbt::Entry& entry, std::string_view database) {
  const std::size_t slash = std::min(entry.key.find('/'), entry.key.size());
  const std::string_view path = entry.key.substr(0, slash);
  const std::string_view key = slash < entry.key.size() ? entry.key.substr(slash + 1) : "";
  if (key == kArrayFile) return;
  const std::uint32_t leaf = leaf_number(path, database);
  const ArrayKind& kind = kind_of(leaf);
  const auto fail = [&](std::string sentence) -> Error {
    Error error(ErrorCode::corrupt, std::move(sentence));
    error.in_file(database).in_tensor(path);
    return error;
  };
  const auto chunk = zarr::parse_chunk_key(kind.array.keys, kind.counts.rank(), key);
  if (!chunk) {
    throw fail(fmt::format("the index has the key {}, which is no chunk", quote(entry.key)));
  }
  const auto linear = linear_index(kind.counts, *chunk);
  if (!linear) {
    throw fail(
        fmt::format("chunk {} is outside of the grid {}", quote(key), to_string(kind.counts)));
  }
  auto [least, most] = kind.stored;
  if (entry.length_bytes < least) least = kind.array.least_stored_bytes(*chunk);
  if (entry.length_bytes < least || entry.length_bytes > most) {
    throw fail(
        fmt::format("chunk {} has {} bytes; {} are wanted", quote(key), entry.length_bytes,
                    least == most ? std::to_string(most) : fmt::format("{} to {}", least, most)));
  }
  LeafIndex& index = index_[leaf];
  if (index.begin == index.end) index.begin = slots_.size();
  slots_.push_back(place(entry, path));
  slots_.back().chunk = *linear;
  index.end = slots_.size();
  index.longest_bytes = std::max(index.longest_bytes, entry.length_bytes);
}

void OrbaxCheckpoint::read_chunks(const ocdbt::Database& database) {
  database.walk([&](const ocdbt::Entry& entry) { add_chunk(entry, database.name()); });
  slots_.shrink_to_fit();
  for (const LeafIndex& index : index_) {
    std::ranges::sort(std::span(slots_).subspan(index.begin, index.end - index.begin), {},
                      &Slot::chunk);
  }
}

const Slot* OrbaxCheckpoint::find(std::uint32_t leaf, const Shape& chunk) const {
  const ArrayKind& kind = kind_of(leaf);
  HFSHARD_CHECK(chunk.rank() == kind.counts.rank());
  const auto linear = linear_index(kind.counts, chunk);
  if (!linear) return nullptr;
  const LeafIndex& index = index_[leaf];
  const auto slots = std::span(slots_).subspan(index.begin, index.end - index.begin);
  if (slots.size() == kind.chunks) return &slots[*linear];
  const auto found = std::ranges::lower_bound(slots, *linear, {}, &Slot::chunk);
  return found != slots.end() && found->chunk == *linear ? &*found : nullptr;
}

std::unique_ptr<PieceReader> OrbaxCheckpoint::open_piece(std::uint32_t leaf, const Shape& chunk,
                                                         PieceSteps steps,
                                                         std::span<std::byte> scratch) const {
  const ArrayKind& kind = kind_of(leaf);
  const std::string key = zarr::chunk_key(kind.array.keys, chunk);
  const Slot* slot = find(leaf, chunk);
  if (slot == nullptr) {
    throw Error(ErrorCode::not_found, fmt::format("chunk {} is missing", quote(key)))
        .in_file(inline_name_)
        .in_tensor(catalog_.tensors[leaf].name);
  }
  StoredChunk stored;
  stored.slot = slot;
  if (slot->file == kInline) {
    stored.bytes = as_bytes(inline_bytes_);
    stored.file_name = &inline_name_;
  } else {
    stored.file = files_.open(slot->file);
    stored.file_name = &files_.name(slot->file);
  }
  stored.file_bytes = slot->file == kInline ? inline_bytes_.size() : files_.size_bytes(slot->file);
  return std::make_unique<OrbaxPiece>(std::move(stored), kind, chunk, steps, scratch,
                                      catalog_.tensors[leaf].name);
}

}  // namespace

std::unique_ptr<Checkpoint> open_orbax(const StorePath& path) {
  return std::make_unique<OrbaxCheckpoint>(locate(path));
}

}  // namespace hfshard::format::orbax
