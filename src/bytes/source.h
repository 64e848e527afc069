#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

struct stat;

namespace hfshard {

/// A read-only private mapping of a piece of a file, populated up front so that a short file is an
/// error here and not a signal later. The bytes live as long as this object.
class MappedBytes {
 public:
  MappedBytes() = default;
  /// [0, length): headers and small tensors. Throws: corrupt (shorter than length), io.
  MappedBytes(const std::string& path, std::uint64_t length_bytes);
  ~MappedBytes();
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  std::span<const std::byte> bytes() const noexcept { return {data_ + skip_, size_ - skip_}; }

 private:
  friend class FileSource;
  MappedBytes(const void* data, std::size_t size, std::size_t skip) noexcept;
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t skip_ = 0;
};

/// A range of a file: in memory that the caller gave, or in a mapping that this object holds.
class View {
 public:
  View() = default;
  explicit View(std::span<const std::byte> bytes) : bytes_(bytes) {}
  explicit View(MappedBytes mapping) : mapping_(std::move(mapping)), bytes_(mapping_.bytes()) {}
  std::span<const std::byte> bytes() const noexcept { return bytes_; }

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

/// What identifies a local file between plan and resume.
struct FileStamp {
  std::uint64_t size_bytes = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;
  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};
FileStamp stamp_of(const struct stat& info) noexcept;

/// A local file, opened read-only (links are followed). `name` is the path as given.
/// Throws: not_found, io, bad_input (a directory, fifo, ...).
class FileSource final : public Source {
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
  /// A range as a mapping of the file's pages; nothing where the kernel or the file system cannot
  /// map and populate. A file that is truncated while the mapping lives ends the process.
  /// Throws: as read_at.
  std::optional<MappedBytes> map(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  /// Throws corrupt unless the range lies in the file.
  void check_range(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
  int descriptor() const noexcept { return fd_; }

 private:
  std::string path_;
  int fd_ = -1;
  FileStamp stamp_;
};

}  // namespace hfshard
