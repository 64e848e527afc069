#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes/local/output.h"
#include "bytes/local/source.h"

namespace hfshard {

/// Keeps bytes that came over a network and aren't in the output yet. A run that goes on after a
/// killed one finds them, and doesn't request them again. This is only a cache: without it, bytes
/// are requested. Thread-safe.
///
/// A file `<name>.<number>` has records. A record has the magic "HFA1", the number of the source
/// file (u32), the offset there (u64), the size (u32), a crc32c, and the bytes. The crc32c is of
/// all others. Numbers are little-endian.
class Arrivals {
 public:
  /// Finds the files that earlier runs left in `directory` as `name`. All files together have at
  /// most `most_bytes`; the oldest ones are removed. Bytes are wanted if nothing was recorded for
  /// `patience`. Throws: io.
  Arrivals(std::string directory, std::string name, std::uint64_t most_bytes,
           std::chrono::milliseconds patience);

  /// Copies bytes of a source file that were found. Returns the ranges of it that are missing.
  std::vector<ByteRange> fill(std::uint32_t file, std::uint64_t offset_bytes,
                              std::span<std::byte> out);
  /// Returns whether bytes that come now are worth keeping, since a killed run would lose much.
  bool is_wanted() const noexcept;
  /// Call this when the output's journal has a new record.
  void recorded() noexcept;
  /// Keeps bytes of a source file. If the disk refuses, frees all space and keeps nothing more.
  void keep(std::uint32_t file, std::uint64_t offset_bytes,
            std::span<const std::byte> bytes) noexcept;
  /// Returns the bytes that were found.
  std::uint64_t found_bytes() const noexcept { return found_bytes_; }
  /// Removes the files, found ones and new ones. Never fails.
  void remove() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  // A record that was found.
  struct Kept {
    std::uint32_t file = 0;
    ByteRange range;
    std::uint32_t sum = 0;
    std::size_t in = 0;  // index in found_
    std::uint64_t at = 0;
  };
  struct Part {
    std::string path;
    std::uint64_t size_bytes = 0;
  };

  void scan(std::size_t in);
  bool read(const Kept& kept, std::vector<std::byte>& buffer) const;
  void write(std::uint32_t file, std::uint64_t offset, std::span<const std::byte> bytes);
  void begin_part();
  void remove_oldest();
  void remove_parts() noexcept;
  std::uint64_t total_bytes() const noexcept;

  std::string directory_;
  std::string name_;
  std::uint64_t most_bytes_;
  std::chrono::milliseconds patience_;
  std::vector<std::unique_ptr<FileSource>> found_;
  std::vector<Kept> kept_;  // sorted by file and begin
  std::uint64_t found_bytes_ = 0;
  std::atomic<Clock::rep> recorded_at_{Clock::now().time_since_epoch().count()};
  std::mutex mutex_;
  std::vector<Part> parts_;  // from the oldest on; the last one is `out_` if there is one
  std::optional<OutputFile> out_;
  std::uint32_t next_ = 0;
  bool stopped_ = false;
  Clock::time_point synced_ = Clock::now();
};

/// Returns how many bytes such files have in a directory. Throws: io.
std::uint64_t arrived_bytes(const std::string& directory, const std::string& name);

}  // namespace hfshard
