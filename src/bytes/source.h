#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "bytes/mapping_guard.h"

#include "hfshard/error.h"
#include "hfshard/io.h"

struct stat;

namespace hfshard {

class Source;

/// A read-only mapping: a window into a file, or memory with a copy of its bytes. A window is
/// populated up front, so that a short file is an error here, and guarded: what is truncated later
/// reads as zeros, and `gone` says so. The bytes live as long as this object.
class MappedBytes {
 public:
  MappedBytes() = default;
  ~MappedBytes();
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  std::span<const std::byte> bytes() const noexcept { return {data_ + skip_, size_ - skip_}; }
  /// Asked after the bytes were used: some of them were not the file's.
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

/// A range of a file: in memory that the caller gave, or in a mapping that this object holds.
class View {
 public:
  View() = default;
  explicit View(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit View(MappedBytes mapping) : mapping_(std::move(mapping)), bytes_(mapping_.bytes()) {}
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// As MappedBytes::gone.
  bool gone() const noexcept { return mapping_.gone(); }

 private:
  MappedBytes mapping_;
  std::span<const std::byte> bytes_;
};

/// What Source::view needs beside the bytes themselves: aligned memory, and a range rounded out.
inline constexpr std::uint64_t kViewSlackBytes = std::uint64_t{3} * 4096;

/// Random-access bytes. Const and thread-safe; reads are exact or throw; no cursor.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size_bytes() const = 0;
  /// As named in errors: a path or URL.
  virtual const std::string& name() const = 0;
  /// Fills `out` from `offset_bytes`. Throws: corrupt (range outside the file, or the file shrank),
  /// io.
  virtual void read_at(std::uint64_t offset_bytes, std::span<std::byte> out) const = 0;
  /// The same bytes wherever this source puts them: somewhere in `scratch`, which has
  /// kViewSlackBytes more, or in a mapping. Throws: as read_at.
  virtual View view(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                    std::span<std::byte> scratch) const;
  /// Hints that the range will be read soon; never fails, may do nothing.
  virtual void will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Hints that the range was used; never fails, may do nothing.
  virtual void done_with(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
};

/// A range read into memory that goes back to the system with the object. Throws: as read_at.
MappedBytes copy_range(const Source& source, std::uint64_t offset_bytes,
                       std::uint64_t length_bytes);
/// All of it as text. Throws: limit (more than `max_bytes`), as read_at.
std::string read_whole(const Source& source, std::uint64_t max_bytes);

/// What identifies a local file between plan and resume.
struct FileStamp {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp stamp_of(const struct stat& info) noexcept;

/// What a file of a store was when it was looked at: as long as it stays the same, so do the bytes.
struct FileIdentity {
  std::uint64_t size_bytes = 0;
  std::string version;  ///< compared, never understood
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};
FileIdentity identity_of(const FileStamp& stamp);

/// Bytes on their way into the memory of who asked for them.
class PendingRead {
 public:
  /// Ends it, if it has not ended.
  virtual ~PendingRead() = default;
  /// Returns once they are there. Throws: as Source::read_at.
  virtual void wait() = 0;
};

/// A file of a store (bytes/store.h), opened.
class SourceFile : public Source {
 public:
  /// As it was when it was opened.
  virtual FileIdentity identity() const = 0;
  /// Compares the file with what it was when it was opened, and with what its name leads to now.
  /// Throws: conflict (it was written to, replaced or removed), io.
  virtual void check_unchanged() const = 0;
  /// A view of this range was used, and its bytes were the file's. Throws: corrupt (it shrank
  /// meanwhile), conflict, io.
  virtual void check_used(const View& view, std::uint64_t offset_bytes,
                          std::uint64_t length_bytes) const;
  /// Whether its bytes come over a network: then start_read starts something.
  virtual bool is_far() const noexcept { return false; }
  /// Starts filling `out`, and returns; nothing where the file is near and reading it is no
  /// waiting.
  virtual std::unique_ptr<PendingRead> start_read(std::uint64_t /*offset_bytes*/,
                                                  std::span<std::byte> /*out*/) const {
    return nullptr;
  }
  /// Whether will_need does anything, so that who would have to find out ranges for it need not.
  virtual bool takes_hints() const noexcept { return true; }
  /// How its data moves; nothing where there is nothing to choose.
  virtual std::optional<IoChoice> choice() const;
};

/// What else changes when a file is written to, and what explains that it did without a write.
struct InodeState {
  std::int64_t ctime_ns = 0;
  std::uint64_t links = 0;
  std::uint64_t mode = 0;
  std::uint64_t owner = 0;
  std::uint64_t group = 0;
};

/// The error for a source that is not what it was: code conflict.
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
  FileIdentity identity() const override { return identity_of(stamp_); }
  void check_unchanged() const override;
  /// A range as a guarded mapping of the file's pages; nothing where that cannot be had. Throws: as
  /// read_at.
  std::optional<MappedBytes> map(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// The error for a range whose mapping was gone when it was used: corrupt (the file is shorter
  /// than it was), conflict (it was written to meanwhile, and is as long again), io (the disk).
  [[noreturn]] void throw_gone(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws corrupt unless the range lies in the file.
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
