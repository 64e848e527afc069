#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bytes/local/source.h"
#include "bytes/store/open_files.h"
#include "bytes/store/store.h"
#include "format/orbax/key_values.h"

namespace hfshard::format::orbax {

/// The place of a chunk.
struct Slot {
  std::uint64_t chunk = 0;         ///< linear index in the grid
  std::uint64_t offset_bytes = 0;  ///< in the file, or in the inline values
  std::uint64_t length_bytes = 0;
  std::uint32_t file = 0;  ///< a data file, kInline or kOwnFile
  std::uint32_t leaf = 0;
  static constexpr std::uint32_t kInline = UINT32_MAX;
  static constexpr std::uint32_t kOwnFile = UINT32_MAX - 1;  ///< a file that only its key names
};

/// The bytes of one stored chunk: a range of a data file, a whole file, or an inline value of the
/// index.
class StoredChunk final : public Source {
 public:
  StoredChunk(const Slot& slot, std::shared_ptr<const SourceFile> file);
  StoredChunk(const Slot& slot, std::span<const std::byte> all, const std::string& name);
  std::uint64_t size_bytes() const override { return slot_->length_bytes; }
  const std::string& name() const override { return file_ ? file_->name() : *name_; }
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  /// Returns the chunk's offset in its container, and the container's size.
  std::uint64_t begin_bytes() const noexcept { return slot_->offset_bytes; }
  std::uint64_t total_bytes() const { return file_ ? file_->size_bytes() : all_.size(); }

 private:
  const Slot* slot_;
  std::shared_ptr<const SourceFile> file_;  // null: `all_`
  std::span<const std::byte> all_;
  const std::string* name_ = nullptr;
};

/// The places of all leaves' chunks. Filled once, then const and thread-safe.
class ChunkIndex {
 public:
  /// `name` is the list of keys, for errors. With `despite_loss`, missing and truncated data files
  /// only fail when a chunk of them is opened.
  ChunkIndex(StorePath item, std::string name, bool despite_loss)
      : item_(std::move(item)), name_(std::move(name)), despite_loss_(despite_loss) {}

  /// Returns the value of a small entry. Throws: corrupt, limit, io.
  std::string load(const Entry& entry);
  /// Adds a chunk of a leaf. Throws: corrupt (a range that passes the end of its file), not_found,
  /// io.
  void add(const Entry& entry, std::uint32_t leaf, std::uint64_t chunk, std::string_view path);
  /// Sorts the chunks after the last `add`.
  void finish(std::size_t leaves);

  const Slot* find(std::uint32_t leaf, std::uint64_t chunk) const noexcept;
  /// Return the number of stored chunks of a leaf, and the size of the longest.
  std::uint64_t count(std::uint32_t leaf) const noexcept { return leaves_[leaf].count; }
  std::uint64_t longest_bytes(std::uint32_t leaf) const noexcept {
    return leaves_[leaf].longest_bytes;
  }
  /// Counts the files with chunks: those of the index, and those that have one chunk each.
  std::uint64_t file_count() const;
  /// Returns the file of a slot, for errors. `key` is the slot's.
  std::string file_of(const Slot& slot, std::string_view key) const;
  /// Opens a chunk. `key` is the slot's. Throws: not_found, corrupt (the file's size changed), io.
  StoredChunk open(const Slot& slot, std::string_view key) const;
  std::uint64_t heap_bytes() const;

 private:
  struct DataFile {
    StorePath path;
    std::uint64_t size_bytes = 0;
    bool missing = false;
  };
  struct Range {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;
    std::uint64_t longest_bytes = 0;
  };
  std::uint32_t file_number(std::string_view path);
  static void check_there(const DataFile& file);
  static void check_range(const DataFile& file, ByteRange range, std::string_view key);

  StorePath item_;
  std::string name_;
  bool despite_loss_;
  std::unordered_map<std::string, std::uint32_t> file_numbers_;
  std::vector<DataFile> files_;
  std::string last_file_;
  std::uint32_t last_number_ = 0;
  OpenFiles open_;
  std::string inline_bytes_;
  std::vector<Slot> slots_;  // by leaf and chunk
  std::vector<Range> leaves_;
};

}  // namespace hfshard::format::orbax
