#include "format/orbax/chunk_index.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/checked.h"
#include "base/coding.h"
#include "base/heap.h"
#include "base/text.h"
#include "format/orbax/ocdbt/envelope.h"

#include "hfshard/error.h"

namespace hfshard::format::orbax {

StoredChunk::StoredChunk(const Slot& slot, std::shared_ptr<const SourceFile> file)
    : slot_(&slot), file_(std::move(file)) {}

StoredChunk::StoredChunk(const Slot& slot, std::span<const std::byte> all, const std::string& name)
    : slot_(&slot), all_(all), name_(&name) {}

void StoredChunk::read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const {
  const std::uint64_t at = slot_->offset_bytes + offset_bytes;
  if (file_) return file_->read_at(at, out);
  std::ranges::copy(all_.subspan(at, out.size()), out.begin());
}

void ChunkIndex::check_there(const DataFile& file) {
  if (!file.missing) return;
  throw Error(ErrorCode::not_found, "a data file of the checkpoint is missing")
      .in_file(file.path.text());
}

void ChunkIndex::check_range(const DataFile& file, ByteRange range, std::string_view key) {
  if (in_range(range.begin, range.end - range.begin, file.size_bytes)) return;
  throw Error(ErrorCode::corrupt,
              fmt::format("the chunk with key {} passes the end of its data file", quote(key)))
      .in_file(file.path.text())
      .at(range, file.size_bytes);
}

// Returns the number of a data file, given its path in the item. Looks at the file on first use.
std::uint32_t ChunkIndex::file_number(std::string_view path) {
  if (!files_.empty() && last_file_ == path) return last_number_;
  const auto [found, fresh] =
      file_numbers_.try_emplace(std::string(path), static_cast<std::uint32_t>(files_.size()));
  if (fresh) {
    const StorePath file = item_ / path;
    const auto entry = file.find();
    const bool missing = !entry || entry->kind == FileKind::dangling;
    files_.push_back({file, missing ? 0 : entry->identity.size_bytes, missing});
    if (!despite_loss_) check_there(files_.back());
  }
  last_file_ = path;
  return last_number_ = found->second;
}

std::string ChunkIndex::load(const Entry& entry) {
  if (entry.is_inline) return std::string(entry.inline_bytes);
  if (entry.is_file) return (item_ / entry.path).read(ocdbt::kMaxInlineBytes);
  const std::uint32_t number = file_number(entry.path);
  const DataFile& file = files_[number];
  check_there(file);
  if (!in_range(entry.offset_bytes, entry.length_bytes, file.size_bytes)) {
    throw Error(ErrorCode::corrupt, "array metadata passes the end of its data file")
        .in_file(file.path.text())
        .at({entry.offset_bytes, entry.offset_bytes + entry.length_bytes}, file.size_bytes);
  }
  if (entry.length_bytes > ocdbt::kMaxInlineBytes) {
    throw Error(ErrorCode::limit,
                fmt::format("array metadata of {} bytes; hfshard reads at most {}",
                            entry.length_bytes, ocdbt::kMaxInlineBytes))
        .in_file(file.path.text());
  }
  std::vector<std::byte> bytes(entry.length_bytes);
  open_.open(number, file.path)->read_at(entry.offset_bytes, bytes);
  return std::string(as_text(bytes));
}

void ChunkIndex::add(const Entry& entry, std::uint32_t leaf, std::uint64_t chunk,
                     std::string_view path) {
  Slot slot{.chunk = chunk, .length_bytes = entry.length_bytes, .leaf = leaf};
  if (entry.is_inline) {
    slot.file = Slot::kInline;
    slot.offset_bytes = inline_bytes_.size();
    inline_bytes_ += entry.inline_bytes;
  } else if (entry.is_file) {
    slot.file = Slot::kOwnFile;
  } else {
    slot.file = file_number(entry.path);
    slot.offset_bytes = entry.offset_bytes;
    try {
      if (!despite_loss_)
        check_range(files_[slot.file], {slot.offset_bytes, slot.offset_bytes + slot.length_bytes},
                    entry.key);
    } catch (Error& error) {  // only here is the array known
      throw error.in_tensor(path);
    }
  }
  slots_.push_back(slot);
}

void ChunkIndex::finish(std::size_t leaves) {
  slots_.shrink_to_fit();
  const auto place = [](const Slot& slot) { return std::tuple(slot.leaf, slot.chunk); };
  std::ranges::sort(slots_, {}, place);
  leaves_.resize(leaves);
  for (std::uint64_t i = 0; i < slots_.size(); ++i) {
    Range& leaf = leaves_[slots_[i].leaf];
    if (leaf.count++ == 0) leaf.begin = i;
    leaf.longest_bytes = std::max(leaf.longest_bytes, slots_[i].length_bytes);
  }
}

const Slot* ChunkIndex::find(std::uint32_t leaf, std::uint64_t chunk) const noexcept {
  const Range& range = leaves_[leaf];
  const auto slots = std::span(slots_).subspan(range.begin, range.count);
  const auto found = std::ranges::lower_bound(slots, chunk, {}, &Slot::chunk);
  return found != slots.end() && found->chunk == chunk ? &*found : nullptr;
}

std::uint64_t ChunkIndex::file_count() const {
  const auto own = std::ranges::count(slots_, Slot::kOwnFile, &Slot::file);
  return std::max<std::uint64_t>(1, files_.size() + static_cast<std::uint64_t>(own));
}

std::string ChunkIndex::file_of(const Slot& slot, std::string_view key) const {
  if (slot.file == Slot::kInline) return name_;
  return slot.file == Slot::kOwnFile ? (item_ / key).text() : files_[slot.file].path.text();
}

StoredChunk ChunkIndex::open(const Slot& slot, std::string_view key) const {
  if (slot.file == Slot::kInline) return {slot, as_bytes(inline_bytes_), name_};
  if (slot.file != Slot::kOwnFile) {
    const DataFile& file = files_[slot.file];
    if (despite_loss_) {
      check_there(file);
      check_range(file, {slot.offset_bytes, slot.offset_bytes + slot.length_bytes}, key);
    }
    return {slot, open_.open(slot.file, file.path)};
  }
  std::shared_ptr<const SourceFile> file = (item_ / key).open();
  if (file->size_bytes() != slot.length_bytes) {
    throw Error(ErrorCode::corrupt, fmt::format("a chunk of {} bytes that had {}",
                                                file->size_bytes(), slot.length_bytes))
        .in_file(file->name());
  }
  return {slot, std::move(file)};
}

std::uint64_t ChunkIndex::heap_bytes() const {
  return hfshard::heap_bytes(slots_) + hfshard::heap_bytes(leaves_) +
         hfshard::heap_bytes(inline_bytes_);
}

}  // namespace hfshard::format::orbax
