#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "bytes/files.h"
#include "bytes/syscalls.h"

#include "hfshard/io.h"

namespace hfshard {

/// Receives the bytes of one file in order.
using ByteSink = std::function<void(std::span<const std::byte>)>;

/// A file written at offsets. What it holds already stays (a resumed run fills in the rest).
/// Threads: write_at may be called concurrently for disjoint ranges.
class OutputFile {
 public:
  /// Opens or creates; never truncates. With IoMode::direct, what is aligned passes the page cache
  /// by where the file system can do that; the other modes are buffered. Throws: io.
  explicit OutputFile(std::string path, IoMode wanted = IoMode::buffered);
  const std::string& path() const noexcept { return path_; }
  /// Direct or buffered.
  IoMode mode() const noexcept { return alignment_ != 0 ? IoMode::direct : IoMode::buffered; }
  /// Why it is this mode, a few words.
  std::string_view why() const noexcept { return why_; }
  /// Writes all of `bytes` there, or throws io (a full disk is said as such).
  void write_at(std::uint64_t offset_bytes, std::span<const std::byte> bytes);
  /// Asks the system to begin writing a range to the disk, so that a later sync_data finds little
  /// left. Never fails.
  void start_writeback(std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;
  /// Waits until the disk has a range, and takes it out of the page cache. Makes nothing durable.
  /// Throws: io.
  void settle(std::uint64_t offset_bytes, std::uint64_t length_bytes);
  /// Takes what the disk has already out of the page cache. Never fails.
  void drop_cached() noexcept;
  /// Makes the bytes written so far, and the size, durable. Throws: io.
  void sync_data();
  /// Current size. Throws: io.
  std::uint64_t size_bytes() const;
  /// Cuts or extends (with zeros). Throws: io.
  void resize(std::uint64_t size_bytes);

 private:
  bool fits_direct(std::uint64_t offset, std::span<const std::byte> bytes) const noexcept;

  std::string path_;
  sys::Descriptor fd_;
  sys::Descriptor direct_;
  std::uint64_t alignment_ = 0;  // of direct writes; 0 if there are none
  std::string_view why_;
};

/// Writes a file as one step: `<path>.tmp`, fsync, rename over `path`, fsync of the directory.
/// After a crash `path` holds the old bytes, all of the new ones, or is absent as before. `produce`
/// is given a sink and calls it with the bytes in order. Throws: io, and what produce throws.
void write_file_durably(const std::string& path,
                        const std::function<void(const ByteSink&)>& produce);
void write_file_durably(const std::string& path, std::string_view text);

/// Makes a file that is not there yet, whole or not at all, whoever else makes it at the same time
/// on this machine or another. False, and nothing made, if the name was taken. Durable when it
/// returns true. Throws: io.
bool create_file_durably(const std::string& path, std::string_view text);

}  // namespace hfshard
