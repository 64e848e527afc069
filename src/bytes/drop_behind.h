#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

namespace hfshard {

/// Takes what was read out of the page cache again, a while after: ranges that are used twice soon
/// are read once, and a run leaves the cache to others. Thread-safe.
class DropBehind {
 public:
  /// About `keep_bytes` stay: the ranges that were added last.
  explicit DropBehind(std::uint64_t keep_bytes);
  /// The descriptor must be open until the last call of this.
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

/// Takes the clean pages of a range out of the page cache, and those of up to 2 MiB before it: a
/// page may be as large, and ranges are used front to back. Never fails.
void drop_from_cache(int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept;

}  // namespace hfshard
