#include "format/dcp/item.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/heap.h"
#include "format/archive.h"
#include "format/dcp/packed_item.h"
#include "format/dcp/shard_header.h"
#include "format/torch_dtype.h"

namespace hfshard::format::dcp {
namespace {

bool same(const std::vector<std::uint64_t>& a, const Shape& b) { return std::ranges::equal(a, b); }

}  // namespace

Items::Items(const StorePath& directory, const Metadata& metadata, bool despite_loss) {
  std::vector<bool> named(metadata.files.size());
  for (const StoredTensor& tensor : metadata.tensors) {
    for (const StoredBox& box : tensor.boxes) named[box.place.file] = true;
  }
  for (const StoredObject& object : metadata.objects) named[object.place.file] = true;
  for (const Replica& replica : metadata.replicas) named[replica.other.place.file] = true;
  for (std::size_t i = 0; i < metadata.files.size(); ++i) {
    DataFile file{directory / metadata.files[i]};
    // A file that no item names has only boxes without elements, so it may be missing.
    if (const auto entry = named[i] ? file.path.find() : std::nullopt) {
      file.is_there = entry->kind == FileKind::regular;
      if (file.is_there) file.size_bytes = entry->identity.size_bytes;
    }
    files_.push_back(std::move(file));
  }
  if (!despite_loss) {
    for (const StoredTensor& tensor : metadata.tensors) {
      for (const StoredBox& box : tensor.boxes) check(box.place, tensor.name);
    }
    for (const StoredObject& object : metadata.objects) check(object.place, object.name);
  }
  for (const StoredTensor& tensor : metadata.tensors) {
    for (const StoredBox& box : tensor.boxes) find_header(box.place, despite_loss);
  }
  for (const Replica& replica : metadata.replicas) find_header(replica.other.place, true);
}

std::uint64_t Items::file_count() const {
  return static_cast<std::uint64_t>(std::ranges::count(files_, true, &DataFile::is_there));
}

// If the file at an item's front isn't an archive, it is a safetensors file.
void Items::find_header(const ItemPlace& place, bool despite_loss) {
  DataFile& data = files_[place.file];
  if (place.offset_bytes != 0 || place.zstd || data.looked_at || !data.is_there) return;
  data.looked_at = true;
  const auto file = open(place.file);
  if (!is_safetensors(*file)) return;
  try {
    headers_.emplace(place.file, read_shard_header(*file));
  } catch (const Error&) {  // its items aren't archives either, so each of them fails
    if (!despite_loss) throw;
  }
}

void Items::check_there(std::uint32_t file) const {
  if (files_[file].is_there) return;
  throw Error(ErrorCode::not_found, "a file of the checkpoint is missing")
      .in_file(files_[file].path.text());
}

void Items::check_place(const ItemPlace& place) const {
  const DataFile& file = files_[place.file];
  if (in_range(place.offset_bytes, place.length_bytes, file.size_bytes)) return;
  throw Error(ErrorCode::corrupt, "the item passes the end of its file")
      .in_file(file.path.text())
      .at(place.range(), file.size_bytes);
}

void Items::check(const ItemPlace& place, const std::string& key) const {
  try {
    check_there(place.file);
    check_place(place);
  } catch (Error& error) {  // only here is the key known
    throw error.in_tensor(key);
  }
}

std::shared_ptr<const SourceFile> Items::open(std::uint32_t number) const {
  auto out = open_.open(number, files_[number].path);
  if (out->size_bytes() != files_[number].size_bytes) {
    throw Error(ErrorCode::corrupt, fmt::format("the file has {} bytes; it had {} when the "
                                                "checkpoint was opened",
                                                out->size_bytes(), files_[number].size_bytes))
        .in_file(files_[number].path.text());
  }
  return out;
}

Payload Items::find(const StoredTensor& tensor, const StoredBox& box) const {
  const auto file = open(box.place.file);
  check_place(box.place);
  const bool is_archive = box.place.zstd || !headers_.contains(box.place.file);
  return is_archive ? find_in_archive(tensor, box, *file) : find_in_safetensors(tensor, box, *file);
}

Payload Items::find_in_archive(const StoredTensor& tensor, const StoredBox& box,
                               const Source& file) {
  const BoxForm form{tensor.dtype, box.extent};
  if (!box.place.zstd) return find_payload(Archive(file, box.place.range()), form);
  const std::uint64_t bytes = PackedItem::scratch_bytes();
  const auto scratch = std::make_unique_for_overwrite<std::byte[]>(bytes);
  return PackedItem(file, box.place, form, {scratch.get(), bytes}).payload();
}

Payload Items::find_in_safetensors(const StoredTensor& tensor, const StoredBox& box,
                                   const Source& file) const {
  const ShardHeader& header = headers_.at(box.place.file);
  const auto found = header.entries.find(tensor.name);
  const auto fail = [&](std::string sentence) {
    throw Error(ErrorCode::corrupt, std::move(sentence)).in_file(file.name());
  };
  if (found == header.entries.end()) fail("the safetensors file lacks the tensor");
  const ShardHeader::Entry& entry = found->second;
  const Shape strides = box.extent.strides();
  const std::uint64_t size = box.extent.numel() * unit_bytes(tensor.dtype);
  if (entry.dtype != safetensors_name(tensor.dtype) || !same(entry.shape, box.extent) ||
      !same(entry.begin, box.begin) || entry.end_bytes - entry.begin_bytes != size) {
    fail(fmt::format("the safetensors file has a different part of the tensor than {} at {}",
                     to_string(box.extent), to_string(box.begin)));
  }
  return {entry.begin_bytes, size, 0, strides, false, 0};
}

std::uint64_t Items::heap_bytes() const {
  return hfshard::heap_bytes(
      files_, [](const DataFile& file) { return hfshard::heap_bytes(file.path.name()); });
}

bool is_packed(const Shape& extent, const Shape& strides, const std::vector<std::uint8_t>& order) {
  std::uint64_t run = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    if (extent[order[k]] > 1 && strides[order[k]] != run) return false;
    run *= extent[order[k]];
  }
  return true;
}

std::vector<std::uint8_t> order_of(const Shape& extent, const Shape& strides) {
  std::vector<std::uint8_t> rows(extent.rank());
  std::iota(rows.begin(), rows.end(), std::uint8_t{0});
  if (is_packed(extent, strides, rows)) return rows;
  std::vector<std::uint8_t> out = rows;
  std::ranges::stable_sort(out, [&](std::uint8_t a, std::uint8_t b) {
    if (extent[a] == 1 || extent[b] == 1) return extent[a] == 1 && extent[b] != 1;
    return strides[a] > strides[b];
  });
  return is_packed(extent, strides, out) ? out : rows;
}

}  // namespace hfshard::format::dcp
