#include "format/dcp/gathered.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/text.h"
#include "base/typed.h"
#include "format/dcp/shard_header.h"
#include "format/dcp/shard_names.h"
#include "format/torch_dtype.h"
#include "format/unreadable.h"

#include "hfshard/error.h"

namespace hfshard::format::dcp {
namespace {

// Merges the parts of tensors from several ranks.
class Gathering {
 public:
  void add_tensor(StoredTensor tensor, const std::string& file) {
    const auto [known, fresh] = tensors_.try_emplace(tensor.name, tensor);
    if (fresh) return;
    StoredTensor& whole = known->second;
    if (whole.dtype != tensor.dtype || !(whole.shape == tensor.shape)) {
      throw Error(ErrorCode::corrupt,
                  fmt::format("the tensor is {} of {} here, and {} of {} on another rank",
                              to_string(tensor.dtype), to_string(tensor.shape),
                              to_string(whole.dtype), to_string(whole.shape)))
          .in_file(file)
          .in_tensor(tensor.name);
    }
    for (StoredBox& box : tensor.boxes) whole.boxes.push_back(std::move(box));
  }
  void add_object(StoredObject object, const StorePath& directory) {
    const auto [known, fresh] = objects_.try_emplace(object.name, object);
    if (!fresh && !is_same(known->second, object, directory)) differing_.insert(object.name);
  }
  void add_nested(Metadata& rank) {
    other_planner_ = other_planner_ || rank.other_planner;
    for (NestedName& name : rank.nested)
      nested_.emplace(std::move(name.name), std::move(name.keys));
  }
  void add_unreadable(UnreadableArray tensor) {
    unreadable_.emplace(tensor.name, std::move(tensor));
  }
  // Returns the number of a file of the checkpoint.
  std::uint32_t file(const std::string& name) {
    const auto [known, fresh] =
        numbers_.try_emplace(name, static_cast<std::uint32_t>(files_.size()));
    if (fresh) files_.push_back(name);
    return known->second;
  }

  // Returns the names of objects whose bytes differ between ranks.
  const std::set<std::string>& differing() const { return differing_; }

  Metadata take() {
    Metadata out;
    for (auto& [name, tensor] : tensors_) {
      // Each rank wrote all the parts that it has, so several can have written the same one.
      std::ranges::stable_sort(tensor.boxes, before);
      std::vector<StoredBox> boxes;
      for (StoredBox& box : std::exchange(tensor.boxes, {})) {
        if (boxes.empty() || boxes.back().begin != box.begin || boxes.back().extent != box.extent) {
          boxes.push_back(std::move(box));
        } else {
          out.replicas.push_back({tensor, boxes.back(), std::move(box)});
        }
      }
      tensor.boxes = std::move(boxes);
      out.tensors.push_back(std::move(tensor));
    }
    for (auto& [name, object] : objects_) out.objects.push_back(std::move(object));
    out.files = std::move(files_);
    for (auto& [name, tensor] : unreadable_) out.unreadable.push_back(std::move(tensor));
    out.other_planner = other_planner_;
    if (other_planner_) return out;
    for (auto& [name, keys] : nested_) out.nested.push_back({name, std::move(keys)});
    return out;
  }

 private:
  static bool before(const StoredBox& a, const StoredBox& b) {
    return std::ranges::lexicographical_compare(a.begin, b.begin);
  }

  // Returns whether two ranks stored the same bytes under a name.
  bool is_same(const StoredObject& a, const StoredObject& b, const StorePath& directory) const {
    if (a.transforms != b.transforms || a.place.length_bytes != b.place.length_bytes) return false;
    const std::vector<StorePath> files{directory / files_[a.place.file],
                                       directory / files_[b.place.file]};
    const ObjectReader reader(files);
    try {
      return object_sha256(reader, {a.name, 0, a.place.range(), {}}) ==
             object_sha256(reader, {b.name, 1, b.place.range(), {}});
    } catch (const Error& error) {  // an unreadable object counts as different
      if (error.code() != ErrorCode::corrupt && error.code() != ErrorCode::not_found) throw;
      return false;
    }
  }

  std::map<std::string, std::string> nested_;
  bool other_planner_ = false;
  std::set<std::string> differing_;
  std::map<std::string, UnreadableArray> unreadable_;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, StoredObject> objects_;
  std::map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> files_;
};

// Returns the rank in "__3_0.distcp". Empty for other names.
std::optional<std::uint64_t> rank_of_data(std::string_view name) {
  if (!name.starts_with("__") || !name.ends_with(".distcp")) return std::nullopt;
  return parse_whole(name.substr(2, name.find('_', 2) - 2));
}

void check_ranks(const StorePath& directory, const std::vector<std::string>& names) {
  for (const std::string& name : directory.list()) {
    const auto rank = rank_of_data(name);
    if (!rank ||
        std::ranges::find(names, fmt::format("__{}{}", *rank, kMetadataFile)) != names.end())
      continue;
    throw Error(ErrorCode::not_found,
                fmt::format("an unfinished checkpoint: rank {} wrote data and no metadata", *rank))
        .in_file((directory / name).text());
  }
}

Shape shape_of(const std::vector<std::uint64_t>& extents) {
  Shape out;
  for (const std::uint64_t extent : extents) out.push_back(extent);
  return out;
}

// Returns a tensor with the one part that a file has.
StoredTensor part_of(const std::string& name, const ShardHeader::Entry& entry, std::uint32_t file) {
  const auto dtype = dtype_from_safetensors(entry.dtype);
  if (!dtype || torch_dtype(*dtype) == nullptr) {
    throw Error(ErrorCode::unsupported,
                fmt::format("a tensor of {}, which hfshard can't read", quote(entry.dtype)));
  }
  if (entry.begin.size() != entry.shape.size())
    throw Error(ErrorCode::corrupt, "the part and its place have different ranks");
  StoredTensor out;
  out.name = name;
  out.dtype = *dtype;
  StoredBox box{shape_of(entry.begin), shape_of(entry.shape), {file, 0, entry.end_bytes, false}};
  for (std::size_t d = 0; d < entry.shape.size(); ++d) {
    const auto end = checked_add(entry.begin[d], entry.shape[d]);
    if (!end) throw Error(ErrorCode::corrupt, "the part ends beyond all sizes");
    out.shape.push_back(*end);
  }
  out.boxes.push_back(std::move(box));
  return out;
}

// The parts of a tensor, and the extents that they imply.
struct Whole {
  Shape shape;
  std::vector<ShardName> shards;
  std::set<std::vector<std::uint64_t>> begins;
  std::uint64_t elements = 0;  // of parts, without repeated ones

  void add(const StoredTensor& part, const std::optional<ShardName>& shard) {
    if (begins.empty()) shape = part.shape;
    for (std::size_t d = 0; d < std::min(shape.rank(), part.shape.rank()); ++d)
      shape[d] = std::max(shape[d], part.shape[d]);
    if (shard) shards.push_back(*shard);
    const StoredBox& box = part.boxes.front();
    if (begins.emplace(box.begin.begin(), box.begin.end()).second)
      elements = checked_add(elements, box.extent.numel()).value_or(UINT64_MAX);
  }
};

// Refuses a tensor with a hole that a missing shard would fill.
void check_whole(const Whole& whole, const ShardNames& shards, const StorePath& directory,
                 const std::string& tensor) {
  if (whole.shards.empty() || whole.elements >= whole.shape.numel()) return;
  const auto missing = shards.missing_among(whole.shards);
  if (!missing) return;
  throw Error(ErrorCode::not_found,
              fmt::format("a shard is missing: the others have {} of {} elements of the tensor",
                          whole.elements, whole.shape.numel()))
      .in_file((directory / *missing).text())
      .in_tensor(tensor);
}

}  // namespace

bool is_rank_metadata(std::string_view name) {
  return name.starts_with("__") && name.ends_with(kMetadataFile) &&
         name.size() > 2 + std::string_view(kMetadataFile).size();
}

Metadata gather_metadata(const StorePath& directory, const std::vector<std::string>& names,
                         const std::vector<std::string>& without, std::vector<std::string>& notes) {
  check_ranks(directory, names);
  Gathering out;
  for (const std::string& name : names) {
    const StorePath path = directory / name;
    Metadata rank = read_metadata(path, without);
    const auto renumber = [&](ItemPlace& place) { place.file = out.file(rank.files[place.file]); };
    for (StoredTensor& tensor : rank.tensors) {
      for (StoredBox& box : tensor.boxes) renumber(box.place);
      out.add_tensor(std::move(tensor), path.text());
    }
    for (StoredObject& object : rank.objects) {
      renumber(object.place);
      out.add_object(std::move(object), directory);
    }
    out.add_nested(rank);
    for (UnreadableArray& tensor : rank.unreadable) out.add_unreadable(std::move(tensor));
  }
  if (!out.differing().empty()) {
    notes.push_back(fmt::format(
        "ranks stored different objects under one name; hfshard reads only the first rank's: {}",
        quoted_list({out.differing().begin(), out.differing().end()})));
  }
  return out.take();
}

Metadata gather_shards(const StorePath& directory, const std::vector<std::string>& names,
                       const std::vector<std::string>& without, std::vector<std::string>& notes) {
  const ShardNames shards(directory, names);
  std::vector<StoredTensor> parts;
  std::map<std::string, Whole> wholes;
  Gathering out;
  for (const std::string& name : names) {
    const StorePath path = directory / name;
    const ShardHeader header = read_shard_header(*path.open());
    for (const auto& [tensor, entry] : header.entries) {
      try {
        parts.push_back(part_of(tensor, entry, out.file(name)));
      } catch (Error& error) {  // only here are file and tensor known
        error.in_file(path.text()).in_tensor(tensor);
        out.add_unreadable(accept_unreadable(without, tensor, error));
        continue;
      }
      wholes[tensor].add(parts.back(), parse_shard_name(name));
    }
  }
  for (StoredTensor& part : parts) {
    const Whole& whole = wholes.at(part.name);
    if (whole.shape.rank() == part.shape.rank()) part.shape = whole.shape;
    if (part.boxes.front().extent.numel() == 0) part.boxes.clear();
    out.add_tensor(std::move(part), directory.text());
  }
  for (const auto& [tensor, whole] : wholes) check_whole(whole, shards, directory, tensor);
  notes = shards.notes();
  return out.take();
}

}  // namespace hfshard::format::dcp
