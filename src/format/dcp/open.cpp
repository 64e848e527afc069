#include "format/dcp/open.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "base/text.h"
#include "base/typed.h"
#include "format/dcp/gathered.h"
#include "format/dcp/item.h"
#include "format/dcp/metadata.h"
#include "format/dcp/object_digest.h"
#include "format/dcp/piece.h"
#include "format/dcp/pieces.h"
#include "format/dcp/replicas.h"
#include "format/dcp/shard_names.h"
#include "format/hf_repo.h"
#include "format/torch_dtype.h"
#include "format/unreadable.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// A unit of a plan holds whole cells, so larger pieces are cut into runs of rows.
constexpr std::uint64_t kCellBytes = std::uint64_t{4} << 20;
// The most decoders that a reader of one piece may have, at about 9 MiB each.
constexpr std::uint64_t kMostPacked = 64;

// Returns the names in a directory that are of one kind, sorted.
std::vector<std::string> names_of(const StorePath& path, bool (*is)(std::string_view)) {
  std::vector<std::string> out = path.list();
  std::erase_if(out, [&](const std::string& name) { return !is(name); });
  return out;
}

// Returns whether a checkpoint is finished: it has `.metadata`, or files of ranks that replace it.
bool is_whole(const StorePath& path) {
  return (path / kMetadataFile).is_file() || !names_of(path, is_rank_shard).empty() ||
         !names_of(path, is_rank_metadata).empty();
}

struct Described {
  Metadata metadata;
  std::string file;  // the source of the metadata, for errors
  std::vector<std::string> notes;
};

// If a checkpoint has no metadata for all ranks, each rank's are read. Source: pytorch/pytorch
// torch/distributed/checkpoint/filesystem.py _get_metadata_path, hf_storage.py.
Described describe(const StorePath& directory, const std::vector<std::string>& without) {
  Described out;
  if (const StorePath path = directory / kMetadataFile; path.exists()) {
    out.metadata = read_metadata(path, without);
    out.file = path.text();
    return out;
  }
  out.file = directory.text();
  if (const auto ranks = names_of(directory, is_rank_metadata); !ranks.empty()) {
    out.metadata = gather_metadata(directory, ranks, without, out.notes);
    out.notes.push_back(fmt::format(
        "{} wrote its own metadata (use_collectives=False), and torch loads each alone",
        ranks.size() == 1 ? "one rank" : fmt::format("each of {} ranks", ranks.size())));
    return out;
  }
  const auto shards = names_of(directory, is_rank_shard);
  if (shards.empty()) {
    throw Error(ErrorCode::not_found,
                "the checkpoint lacks .metadata, which says where each tensor is")
        .in_file(directory.text())
        .hint(
            "rank 0 writes it last, so the save may be unfinished; if the files are a copy, copy "
            "it too: cp * skips names that begin with a dot");
  }
  out.metadata = gather_shards(directory, shards, without, out.notes);
  return out;
}

// Returns a note on files that are no part of the checkpoint, such as a data loader's, or an empty
// text.
std::string other_files(const StorePath& directory, const std::vector<std::string>& files) {
  const std::vector<std::string> entries = directory.list();
  std::vector<std::string> known = find_side_files(directory, entries);
  known.insert(known.end(), files.begin(), files.end());
  for (const std::string& entry : entries) {
    if (is_rank_metadata(entry)) known.push_back(entry);
  }
  std::ranges::sort(known);
  return note_left_behind(directory, entries, known, {});
}

class DcpCheckpoint final : public Checkpoint {
 public:
  DcpCheckpoint(const StorePath& directory, Described described, const Choice& choice);

  const Catalog& catalog() const override { return catalog_; }
  std::uint64_t data_files() const override { return items_->file_count(); }
  bool has_piece(std::uint32_t array, const Shape& piece) const override {
    return linear(array, piece).has_value();
  }
  std::optional<PiecePlace> find_piece(std::uint32_t array, const Shape& piece) const override;
  std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece, PieceSteps steps,
                                          std::span<std::byte> scratch) const override;
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps /*steps*/) const override {
    return piece_scratch_bytes(stored_[array].packed_at_once);
  }
  std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) const override {
    return dcp::object_digest(reader, object);
  }
  std::uint64_t heap_bytes() const override;

 private:
  // Facts about a tensor that the catalog doesn't have.
  struct Stored {
    StoredTensor tensor;
    PieceBoxes pieces;
    std::vector<std::uint8_t> order;
    std::uint64_t first_item = 0;  // of its first box, among all boxes
    std::uint64_t cell_bytes = 0;
    std::uint64_t packed_at_once = 0;  // 0: no packed items
  };
  void add_tensors(Metadata& metadata, const std::string& file, const Choice& choice);
  void add(StoredTensor tensor, std::vector<std::uint8_t> order, const std::string& file);
  std::vector<std::uint8_t> order_of(const StoredTensor& tensor, bool despite_loss) const;
  void add_objects(std::vector<StoredObject> objects, const std::vector<std::string>& files);
  std::optional<std::uint64_t> linear(std::uint32_t array, const Shape& piece) const;
  Payload payload_of(const Stored& stored, std::uint32_t box) const;

  Catalog catalog_;
  std::unique_ptr<Items> items_;
  std::vector<Stored> stored_;                                // by array
  std::map<std::vector<std::uint64_t>, std::uint32_t> cuts_;  // number of each
  std::uint64_t items_count_ = 0;
  mutable CrcParts checks_;
};

// Returns a run of the slowest axis as a cell: the longest that divides it and is short enough.
Shape cell_of(const Shape& chunk, const std::vector<std::uint8_t>& order, std::uint64_t bytes) {
  Shape out = chunk;
  if (chunk.rank() == 0 || chunk.numel() * bytes <= kCellBytes) return out;
  const std::size_t axis = order[0];
  const std::uint64_t rows = chunk[axis];
  const std::uint64_t row_bytes = chunk.numel() / rows * bytes;
  const std::uint64_t wanted = std::clamp<std::uint64_t>(kCellBytes / row_bytes, 1, rows);
  std::uint64_t best = rows;
  for (std::uint64_t each = wanted; each > 0 && best == rows; --each) {
    if (rows % each == 0) best = each;
  }
  // If only much shorter runs divide it, it stays whole.
  if (best * 16 >= wanted) out[axis] = best;
  return out;
}

DcpCheckpoint::DcpCheckpoint(const StorePath& directory, Described described,
                             const Choice& choice) {
  catalog_.location = directory.text();
  catalog_.directory = directory;
  catalog_.wording = {
      .kind = "dcp", .array = "tensor", .arrays = "tensors", .name = "name", .has_cuts = true};
  catalog_.writer = manifest_head(directory).tool;
  if (catalog_.writer.empty()) catalog_.writer = "torch.distributed.checkpoint";
  catalog_.notes = std::move(described.notes);
  Metadata& metadata = described.metadata;
  items_ = std::make_unique<Items>(directory, metadata, choice.despite_loss);
  name_replicas(*items_, metadata, catalog_.notes);
  if (std::string note = other_files(directory, metadata.files); !note.empty())
    catalog_.notes.push_back(std::move(note));
  add_tensors(metadata, described.file, choice);
  add_objects(std::move(metadata.objects), metadata.files);
  catalog_.nested = std::move(metadata.nested);
  catalog_.unreadable = std::move(metadata.unreadable);
  if (metadata.other_planner) {
    catalog_.notes.emplace_back("planner_data comes from a custom planner; reshard can't keep it");
  }
}

// Returns the order of axes in which a tensor's elements are stored. The first part decides; with
// `despite_loss`, the first readable part.
std::vector<std::uint8_t> DcpCheckpoint::order_of(const StoredTensor& tensor,
                                                  bool despite_loss) const {
  std::vector<std::uint8_t> rows(tensor.shape.rank());
  std::iota(rows.begin(), rows.end(), std::uint8_t{0});
  if (rows.size() < 2) return rows;
  for (const StoredBox& box : tensor.boxes) {
    try {
      return dcp::order_of(box.extent, items_->find(tensor, box).strides);
    } catch (Error& error) {  // only here is the tensor known
      const bool is_loss =
          error.code() == ErrorCode::corrupt || error.code() == ErrorCode::not_found;
      if (!despite_loss || !is_loss) throw error.in_tensor(tensor.name);
    }
  }
  return rows;
}

// Moves the tensors to the catalog, or their names to `metadata.unreadable`. An item's archive
// shows views that can't be read.
void DcpCheckpoint::add_tensors(Metadata& metadata, const std::string& file, const Choice& choice) {
  stored_.reserve(metadata.tensors.size());
  for (StoredTensor& tensor : metadata.tensors) {
    std::vector<std::uint8_t> order;
    try {
      order = order_of(tensor, choice.despite_loss);
    } catch (const Error& error) {
      metadata.unreadable.push_back(accept_unreadable(choice.without, tensor.name, error));
      continue;
    }
    add(std::move(tensor), std::move(order), file);
  }
  std::ranges::sort(metadata.unreadable, {}, &UnreadableArray::name);
}

void DcpCheckpoint::add(StoredTensor tensor, std::vector<std::uint8_t> order,
                        const std::string& file) {
  Stored out;
  out.pieces = cut_pieces(tensor, file);
  out.first_item = items_count_;
  items_count_ += tensor.boxes.size();
  out.order = std::move(order);  // if a tensor has another order of axes, all its parts have it
  TensorInfo info;
  info.name = tensor.name;
  info.dtype = tensor.dtype;
  info.shape = from_units(tensor.dtype, tensor.shape);
  const std::uint64_t unit = unit_bytes(tensor.dtype);
  out.packed_at_once = most_packed_at_once(tensor, out.pieces, out.order);
  if (out.packed_at_once > kMostPacked) {
    throw Error(ErrorCode::limit, fmt::format("a piece of {} packed items side by side; at most {} "
                                              "are decoded together",
                                              out.packed_at_once, kMostPacked))
        .in_file(file)
        .in_tensor(tensor.name);
  }
  // A packed item can only be read from front to back.
  const bool is_packed = out.packed_at_once > 0;
  const Shape cell = is_packed ? out.pieces.chunk : cell_of(out.pieces.chunk, out.order, unit);
  out.cell_bytes = cell.numel() * unit;
  const bool rows = std::ranges::is_sorted(out.order);
  const Grid grid{from_units(tensor.dtype, out.pieces.chunk),
                  from_units(tensor.dtype, out.pieces.chunk), from_units(tensor.dtype, cell),
                  rows ? std::vector<std::uint8_t>() : out.order};
  std::vector<std::uint64_t> key(out.order.begin(), out.order.end());
  key.insert(key.end(), grid.chunk.begin(), grid.chunk.end());
  key.insert(key.end(), grid.inner.begin(), grid.inner.end());
  key.push_back(is_packed ? 1 : 0);
  const auto [known, fresh] =
      cuts_.try_emplace(std::move(key), static_cast<std::uint32_t>(catalog_.cuts.size()));
  if (fresh) {
    catalog_.cuts.push_back({grid, {}, true});
    if (is_packed) catalog_.cuts.back().codecs.emplace_back(kZstdTransform);
  }
  info.cut = known->second;
  out.tensor = std::move(tensor);
  catalog_.tensors.push_back(std::move(info));
  stored_.push_back(std::move(out));
}

void DcpCheckpoint::add_objects(std::vector<StoredObject> objects,
                                const std::vector<std::string>& files) {
  catalog_.attributes = Json::Object();
  if (objects.empty()) return;
  Json& listed = catalog_.attributes["objects"];
  for (const std::string& file : files) catalog_.object_files.push_back(catalog_.directory / file);
  for (StoredObject& object : objects) {
    listed[object.name] = object.place.length_bytes;
    catalog_.objects.push_back({std::move(object.name), object.place.file, object.place.range(),
                                std::move(object.transforms)});
  }
}

std::optional<std::uint64_t> DcpCheckpoint::linear(std::uint32_t array, const Shape& piece) const {
  const Shape& counts = stored_[array].pieces.counts;
  HFSHARD_CHECK(piece.rank() == counts.rank());
  std::uint64_t out = 0;
  for (std::size_t d = 0; d < counts.rank(); ++d) {
    if (piece[d] >= counts[d]) return std::nullopt;
    out = out * counts[d] + piece[d];
  }
  return out;
}

std::optional<PiecePlace> DcpCheckpoint::find_piece(std::uint32_t array, const Shape& piece) const {
  const Stored& stored = stored_[array];
  const auto at = linear(array, piece);
  if (!at) return PiecePlace{items_->path_of(0), std::nullopt};
  // If there are several boxes, the first counts.
  const ItemPlace& place = stored.tensor.boxes[stored.pieces.boxes[stored.pieces.first[*at]]].place;
  return PiecePlace{items_->path_of(place.file), place.range()};
}

std::unique_ptr<PieceReader> DcpCheckpoint::open_piece(std::uint32_t array, const Shape& piece,
                                                       PieceSteps steps,
                                                       std::span<std::byte> scratch) const {
  const Stored& stored = stored_[array];
  const auto at = linear(array, piece);
  HFSHARD_CHECK(at.has_value() && scratch.size() >= scratch_bytes(array, steps));
  PieceShape form;
  form.extent = stored.pieces.chunk;
  form.shape = stored.tensor.shape;
  form.order = stored.order;
  form.unit_bytes = unit_bytes(stored.tensor.dtype);
  form.cell_bytes = stored.cell_bytes;
  for (std::size_t d = 0; d < piece.rank(); ++d)
    form.begin.push_back(piece[d] * stored.pieces.chunk[d]);
  std::vector<PiecePart> parts;
  try {
    for (std::uint32_t i = stored.pieces.first[*at]; i < stored.pieces.first[*at + 1]; ++i) {
      const std::uint32_t number = stored.pieces.boxes[i];
      const StoredBox& box = stored.tensor.boxes[number];
      parts.push_back({&box, items_->open(box.place.file), {}, stored.first_item + number});
      if (!box.place.zstd) parts.back().payload = items_->find(stored.tensor, box);
    }
  } catch (Error& error) {  // only here is the tensor known
    error.in_tensor(stored.tensor.name);
    if (error.code() != ErrorCode::unsupported) throw;
    throw with_way_out(std::move(error), stored.tensor.name);
  }
  return open_boxes(std::move(parts), std::move(form), stored.tensor, checks_, scratch);
}

std::uint64_t DcpCheckpoint::heap_bytes() const {
  return hfshard::heap_bytes(catalog_) + items_->heap_bytes() +
         hfshard::heap_bytes(stored_, [](const Stored& stored) {
           return hfshard::heap_bytes(stored.tensor.name) +
                  hfshard::heap_bytes(stored.tensor.boxes) +
                  hfshard::heap_bytes(stored.pieces.first) +
                  hfshard::heap_bytes(stored.pieces.boxes) + hfshard::heap_bytes(stored.order);
         });
}

// -- Places

bool is_dcp(const StorePath& path) {
  if ((path / kMetadataFile).is_file()) return true;
  return std::ranges::any_of(path.list(), [](const std::string& name) {
    return name.ends_with(".distcp") || is_rank_shard(name);
  });
}

std::vector<Found::Step> steps_below(const StorePath& root) {
  std::vector<Found::Step> out;
  for (const std::string& name : root.list()) {
    if (!name.starts_with(kStepPrefix)) continue;
    const auto number = parse_whole(std::string_view(name).substr(kStepPrefix.size()));
    const StorePath path = root / name;
    if (number && path.is_directory() && (is_dcp(path) || path.list().empty()))
      out.push_back({*number, path.name(), is_whole(path)});
  }
  // Empty directories alone aren't a run.
  if (std::ranges::all_of(out,
                          [&](const auto& step) { return root.at(step.directory).list().empty(); }))
    out.clear();
  std::ranges::sort(out, {}, &Found::Step::number);
  return out;
}

StorePath chosen(const StorePath& path, const Choice& choice) {
  if (!choice.items.empty()) {
    throw Error(ErrorCode::usage, "DCP checkpoints don't have items").in_file(path.text());
  }
  const std::vector<Found::Step> steps =
      is_dcp(path) ? std::vector<Found::Step>() : steps_below(path);
  if (!choice.step) return steps.empty() ? path : path.at(steps.back().directory);
  return path.at(step_numbered(steps, *choice.step, path).directory);
}

}  // namespace

std::optional<Found> find_checkpoint(const StorePath& path) {
  if (!path.is_directory()) return std::nullopt;
  Found out;
  out.directory = path.name();
  if (!is_dcp(path)) {
    out.steps = steps_below(path);
    if (out.steps.empty()) return std::nullopt;
    out.directory = out.steps.back().directory;
  }
  out.plan_id = manifest_head(path.at(out.directory)).plan_id;
  return out;
}

std::string why_incomplete(const StorePath& step) {
  if (step.list().empty()) return "is empty";
  return is_whole(step) ? "" : "is unfinished: it lacks .metadata, which is written last";
}

std::unique_ptr<Checkpoint> open_dcp(const StorePath& path, const Choice& choice) {
  const StorePath directory = chosen(path, choice);
  return std::make_unique<DcpCheckpoint>(directory, describe(directory, choice.without), choice);
}

}  // namespace hfshard::format::dcp
