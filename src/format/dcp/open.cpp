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
#include "format/dcp/piece.h"
#include "format/dcp/pieces.h"
#include "format/dcp/shard_names.h"
#include "format/dcp/torch_dtype.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Cells are what a unit of a plan holds whole, so pieces beyond this are cut into runs of rows.
constexpr std::uint64_t kCellBytes = std::uint64_t{4} << 20;
// Names that a note lists.
constexpr std::size_t kNamed = 8;
// Decoders that a reader of one piece may have: some 9 MiB each.
constexpr std::uint64_t kMostPacked = 64;

// Names in a directory that are of one kind, sorted.
std::vector<std::string> names_of(const StorePath& path, bool (*is)(std::string_view)) {
  std::vector<std::string> out = path.list();
  std::erase_if(out, [&](const std::string& name) { return !is(name); });
  return out;
}

// What is there of it without having been renamed at the end.
bool is_whole(const StorePath& path) {
  return (path / kMetadataFile).is_file() || !names_of(path, is_rank_shard).empty() ||
         !names_of(path, is_rank_metadata).empty();
}

struct Described {
  Metadata metadata;
  std::string file;  // that says it, in errors
  std::vector<std::string> notes;
};

// Of a checkpoint that has no metadata for all ranks, what each of them says. Source:
// pytorch/pytorch torch/distributed/checkpoint/filesystem.py _get_metadata_path, hf_storage.py.
Described describe(const StorePath& directory) {
  Described out;
  if (const StorePath path = directory / kMetadataFile; path.exists()) {
    out.metadata = read_metadata(path);
    out.file = path.text();
    return out;
  }
  out.file = directory.text();
  if (const auto ranks = names_of(directory, is_rank_metadata); !ranks.empty()) {
    out.metadata = gather_metadata(directory, ranks);
    out.notes.push_back(fmt::format(
        "{} wrote metadata of its own (use_collectives=False), which torch loads alone",
        ranks.size() == 1 ? "one rank" : fmt::format("each of {} ranks", ranks.size())));
    return out;
  }
  const auto shards = names_of(directory, is_rank_shard);
  if (shards.empty()) {
    throw Error(ErrorCode::not_found,
                "an unfinished checkpoint: .metadata, which is written last, is missing")
        .in_file(directory.text());
  }
  out.metadata = gather_shards(directory, shards, out.notes);
  return out;
}

class DcpCheckpoint final : public Checkpoint {
 public:
  DcpCheckpoint(const StorePath& directory, Described described, bool despite_loss);

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
  std::uint64_t heap_bytes() const override;

 private:
  // What is known of a tensor beside the catalog.
  struct Stored {
    StoredTensor tensor;
    PieceBoxes pieces;
    std::vector<std::uint8_t> order;
    std::uint64_t first_item = 0;  // number of its first box among those of all
    std::uint64_t cell_bytes = 0;
    std::uint64_t packed_at_once = 0;  // 0: none of its items is packed
  };
  void add(StoredTensor tensor, const std::string& file, bool despite_loss);
  std::vector<std::uint8_t> order_of(const StoredTensor& tensor, bool despite_loss) const;
  void add_objects(const std::vector<StoredObject>& objects);
  std::optional<std::uint64_t> linear(std::uint32_t array, const Shape& piece) const;
  Payload payload_of(const Stored& stored, std::uint32_t box) const;

  Catalog catalog_;
  std::unique_ptr<Items> items_;
  std::vector<Stored> stored_;                                // by array
  std::map<std::vector<std::uint64_t>, std::uint32_t> cuts_;  // number of each
  std::uint64_t items_count_ = 0;
  mutable CrcParts checks_;
};

// Cells are runs of the slowest axis: the longest that divide it and are short enough.
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
  // Where only short runs divide it, it stays whole.
  if (best * 16 >= wanted) out[axis] = best;
  return out;
}

DcpCheckpoint::DcpCheckpoint(const StorePath& directory, Described described, bool despite_loss) {
  catalog_.location = directory.text();
  catalog_.directory = directory;
  catalog_.wording = {
      .kind = "dcp", .array = "tensor", .arrays = "tensors", .name = "name", .has_cuts = true};
  catalog_.writer = manifest_head(directory).tool;
  if (catalog_.writer.empty()) catalog_.writer = "torch.distributed.checkpoint";
  catalog_.notes = std::move(described.notes);
  Metadata& metadata = described.metadata;
  items_ = std::make_unique<Items>(directory, metadata, despite_loss);
  stored_.reserve(metadata.tensors.size());
  for (StoredTensor& tensor : metadata.tensors)
    add(std::move(tensor), described.file, despite_loss);
  add_objects(metadata.objects);
}

// In which order of axes the elements of a tensor lie, as its first part has them; `despite_loss`:
// as the first has that can be read.
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

void DcpCheckpoint::add(StoredTensor tensor, const std::string& file, bool despite_loss) {
  Stored out;
  out.pieces = cut_pieces(tensor, file);
  out.first_item = items_count_;
  items_count_ += tensor.boxes.size();
  // Tensors that are kept in another order of axes are so in all of their parts.
  out.order = order_of(tensor, despite_loss);
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
  // A packed item is read from front to back, whoever wants a part of it.
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

void DcpCheckpoint::add_objects(const std::vector<StoredObject>& objects) {
  catalog_.attributes = Json::Object();
  if (objects.empty()) return;
  Json& listed = catalog_.attributes["objects"];
  std::vector<std::string> names;
  for (const StoredObject& object : objects) {
    listed[object.name] = object.place.length_bytes;
    if (names.size() < kNamed) names.push_back(quote(object.name));
  }
  if (names.size() < objects.size()) names.emplace_back("...");
  catalog_.notes.push_back(fmt::format(
      "{} no {} and not read: {}",
      objects.size() == 1 ? "1 object is" : fmt::format("{} objects are", objects.size()),
      objects.size() == 1 ? "tensor" : "tensors", join(names, ", ")));
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
  // Of several boxes the first.
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
    throw error.in_tensor(stored.tensor.name);
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

// Of a run's checkpoints: "step-500". Source: pytorch/torchtitan
// torchtitan/components/checkpoint.py.
constexpr std::string_view kStepPrefix = "step-";

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
    if (number && path.is_directory() && is_dcp(path))
      out.push_back({*number, path.name(), is_whole(path)});
  }
  std::ranges::sort(out, {}, &Found::Step::number);
  return out;
}

StorePath chosen(const StorePath& path, const Choice& choice) {
  if (!choice.items.empty()) {
    throw Error(ErrorCode::usage, "a checkpoint of the format dcp has no items")
        .in_file(path.text());
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

std::unique_ptr<Checkpoint> open_dcp(const StorePath& path, const Choice& choice) {
  const StorePath directory = chosen(path, choice);
  return std::make_unique<DcpCheckpoint>(directory, describe(directory), choice.despite_loss);
}

}  // namespace hfshard::format::dcp
