#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bytes/local/files.h"
#include "bytes/local/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

/// Receives the bytes of one file in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// A file written at offsets. It keeps its contents, since a resumed run fills in the rest.
/// Threads: write_at may be called concurrently for disjoint ranges.
class OutputFile {
 public:
  /// Opens or creates; never truncates. With IoMode::direct, aligned writes bypass the page cache
  /// if the file system supports it. The other modes are buffered. Throws: io.
  explicit OutputFile(std::string path, IoMode wanted = IoMode::buffered);
  const std::string& path() const noexcept { return path_; }
  /// Returns direct or buffered.
  IoMode mode() const noexcept { return alignment_ != 0 ? IoMode::direct : IoMode::buffered; }
  /// Returns the reason for the mode, a few words.
  std::string_view why() const noexcept { return why_; }
  /// Writes all of `bytes`, or throws io (names a full disk).
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Asks the system to begin writing a range to the disk, so a later sync_data has less to do.
  /// Never fails.
  void start_writeback(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;
  /// Waits until the disk has a range, and drops it from the page cache. Doesn't make it durable.
  /// Throws: io.
  void settle(std::uint64_t offset_bytes, std::uint64_t length_bytes);
  /// Drops what the disk has from the page cache. Never fails.
  void drop_cached() noexcept;
  /// Makes the bytes written so far, and the size, durable. Throws: io.
  void sync_data();
  /// Returns the current size. Throws: io.
  std::uint64_t size_bytes() const;
  /// Truncates or extends (with zeros). Throws: io.
  void resize(std::uint64_t size_bytes);

 private:
  bool fits_direct(std::uint64_t offset, std::span<const std::byte> bytes) const noexcept;

  std::string path_;
  sys::Descriptor fd_;
  sys::Descriptor direct_;
  std::uint64_t alignment_ = 0;  // of direct writes; 0: none
  std::string_view why_;
};

/// Returns the name of a file while it is written: `<path>.tmp`.
std::string temporary_name(const std::string& path);

/// Writes a file atomically: `<path>.tmp`, fsync, rename over `path`, fsync of the directory. After
/// a crash `path` has the old bytes, all new ones, or is absent as before. `produce` calls the
/// given sink with the bytes in order. Throws: io, as produce.
void write_file_durably(const std::string& path,
                        const std::function<void(const ByteSink&)>& produce);
void write_file_durably(const std::string& path, std::string_view text);

/// Creates a new file, completely or not at all, even if another process on any machine does so at
/// the same time. Returns false, and makes nothing, if the name is taken. Durable when it returns
/// true. Throws: io.
bool create_file_durably(const std::string& path, std::string_view text);

}  // namespace hfshard
