#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bytes/local/mapping_guard.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

struct stat;

namespace hfshard {

class Arrivals;
class Source;

/// A read-only mapping: a window into a file, or memory with a copy of its bytes. A window is
/// populated up front, so a short file is an error here. It is also guarded: bytes that are
/// truncated later read as zeros, and `gone` returns true. The bytes live as long as this object.
class MappedBytes {
 public:
  MappedBytes() = default;
  ~MappedBytes();
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  std::span<const std::byte> bytes() const noexcept { return {data_ + skip_, size_ - skip_}; }
  /// Check this after using the bytes. If true, some of them weren't the file's.
  bool gone() const noexcept { return guard_.gone(); }

 private:
  friend class FileSource;
  friend MappedBytes copy_range(const Source& source, std::uint64_t offset_bytes,
                                std::uint64_t length_bytes);
  MappedBytes(const void* data, std::size_t size, std::size_t skip, MappingGuard guard) noexcept;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t skip_ = 0;
  MappingGuard guard_;
};

/// A range of a file, in the caller's memory or in a mapping that this object owns.
class View {
 public:
  View() = default;
  explicit View(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit View(MappedBytes mapping) : mapping_(std::move(mapping)), bytes_(mapping_.bytes()) {}
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Returns MappedBytes::gone.
  bool gone() const noexcept { return mapping_.gone(); }

 private:
  MappedBytes mapping_;
  std::span<const std::byte> bytes_;
};

/// Additional bytes that Source::view needs: for alignment, and for rounding the range out.
inline constexpr std::uint64_t kViewSlackBytes = std::uint64_t{3} * 4096;

/// Random-access bytes. Const and thread-safe; reads are exact or throw; no cursor.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size_bytes() const = 0;
  /// Returns the name for errors: a path or URL.
  virtual const std::string& name() const = 0;
  /// Fills `out` from `offset_bytes`. Throws: corrupt (range outside the file, or the file shrank),
  /// io.
  virtual void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const = 0;
  /// Returns the same bytes, either in `scratch`, which has kViewSlackBytes more, or in a mapping.
  /// Throws: as read_at.
  virtual View view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                    std::span<std::byte> scratch) const;
  /// Hints that the range will be read soon. Never fails; can do nothing.
  virtual void will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Hints that the range was used. Never fails; can do nothing.
  virtual void done_with(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
};

/// Reads a range into memory that is unmapped with the object. Throws: as read_at.
MappedBytes copy_range(const Source& source, std::uint64_t offset_bytes,
                       std::uint64_t length_bytes);
/// Reads all bytes as text. Throws: limit (more than `max_bytes`), as read_at.
std::string read_whole(const Source& source, std::uint64_t max_bytes);

/// Identifies a local file between plan and resume.
struct FileStamp {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp stamp_of(const struct stat& info) noexcept;

/// Other properties that change with writes, and those that explain a change without one.
struct InodeState {
  std::int64_t ctime_ns = 0;
  std::uint64_t links = 0;
  std::uint64_t mode = 0;
  std::uint64_t owner = 0;
  std::uint64_t group = 0;
  friend bool operator==(const InodeState&, const InodeState&) = default;
};
InodeState state_of(const struct stat& info) noexcept;
/// Returns whether a file was written to between the two, even if its size and modification time
/// are equal. No one can set an inode's change time. A new name, mode or owner for the file also
/// changes that time, and explains it.
bool was_written(const InodeState& then, const InodeState& now) noexcept;

/// The state of a store's file. While it stays the same, so do the bytes.
struct FileIdentity {
  std::uint64_t size_bytes = 0;
  std::string version;  ///< opaque, only compared
  /// Those of the local files that it represents.
  std::vector<InodeState> inodes{};
  /// Also true if only one has inodes, or if their changes explain their times.
  friend bool operator==(const FileIdentity& a, const FileIdentity& b);
};
FileIdentity identity_of(const FileStamp& stamp);
FileIdentity identity_of(const FileStamp& stamp, const InodeState& state);

/// A read in progress into the caller's memory.
class PendingRead {
 public:
  /// Ends the read if it is unfinished.
  virtual ~PendingRead() = default;
  /// Blocks until the bytes are there. Throws: as Source::read_at.
  virtual void wait() = 0;
};

/// A file of a store (bytes/store/store.h), opened.
class SourceFile : public Source {
 public:
  /// Returns the identity when the file was opened.
  virtual FileIdentity identity() const = 0;
  /// Compares the file with its state at opening, and with the file that its name leads to now.
  /// Throws: conflict (it was written to, replaced or removed), io.
  virtual void check_unchanged() const = 0;
  /// Checks that the bytes of a used view were the file's. Throws: corrupt (it shrank meanwhile),
  /// conflict, io.
  virtual void check_used(const View& view, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes) const;
  /// Returns whether its bytes come over a network. Only then does start_read start a read.
  virtual bool is_far() const noexcept { return false; }
  /// Starts to fill `out`. Null for a local file, which can be read without waiting.
  virtual std::unique_ptr<PendingRead> start_read(std::uint64_t /*offset_bytes*/,
                                                  std::span<std::byte> /*out*/) const {
    return nullptr;
  }
  /// Keeps the bytes that come over a network from now on, and looks for them there first. `file`
  /// is the number of this file there.
  virtual void keep_in(const std::shared_ptr<Arrivals>& /*arrivals*/, std::uint32_t /*file*/) {}
  /// Returns whether will_need has an effect. If not, callers needn't find ranges for it.
  virtual bool takes_hints() const noexcept { return true; }
  /// Returns how its data moves. Empty if there is no choice.
  virtual std::optional<IoChoice> choice() const;
};

/// Returns the error for a source that has changed: code conflict.
Error changed_source(const std::string& path);

/// A local file, opened read-only (links are followed). `name` is the path as given.
/// Throws: not_found, io, bad_input (a directory, fifo, ...).
class FileSource final : public SourceFile {
 public:
  explicit FileSource(std::string path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  std::uint64_t size_bytes() const override;
  const std::string& name() const override;
  void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const override;
  void will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const override;
  FileStamp stamp() const;
  FileIdentity identity() const override;
  void check_unchanged() const override;
  /// Maps a range of the file's pages, guarded. Empty if that isn't possible. Throws: as read_at.
  std::optional<MappedBytes> map(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws the error for a range whose mapping was gone. Throws: corrupt (the file is shorter),
  /// conflict (it was written to meanwhile, and is as long again), io (the disk).
  [[noreturn]] void throw_gone(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws corrupt unless the range is in the file.
  void check_range(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  int descriptor() const noexcept { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
  FileStamp stamp_;
  InodeState state_;
  bool local_ = false;
};

}  // namespace hfshard
