#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace hfshard {

/// Drops ranges from the page cache some time after they were read. So ranges that are soon used
/// again are read once, and a run leaves the cache to other programs. Thread-safe.
class DropBehind {
 public:
  /// Keeps about `keep_bytes`: the ranges that were added last.
  explicit DropBehind(std::uint64_t keep_bytes);
  /// Adds a range. The descriptor must be open until the last call of `add`.
  void add(int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;

 private:
  struct Range {
    int fd = -1;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
  };
  std::uint64_t keep_bytes_;
  std::mutex mutex_;
  std::vector<Range> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0;
};

/// Drops the clean pages of a range from the page cache, and those of up to 2 MiB before it. Pages
/// can be that large, and ranges are used front to back. Never fails.
void drop_from_cache(int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;

}  // namespace hfshard
