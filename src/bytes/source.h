#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct stat;

namespace hfshard {

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
  /// Hints that the range will be read soon; never fails, may do nothing.
  virtual void will_need(std::uint64_t offset_bytes, std::uint64_t length_bytes) const;
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

 private:
  std::string path_;
  int fd_ = -1;
  FileStamp stamp_;
};

/// A read-only private mapping of [0, length) of a file (headers and small tensors), populated up
/// front so that a short file is an error here and not a signal later. The bytes live as long as
/// this object.
class MappedBytes {
 public:
  /// Throws: corrupt (shorter than length), io.
  MappedBytes(const std::string& path, std::uint64_t length_bytes);
  ~MappedBytes();
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace hfshard
