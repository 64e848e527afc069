#include "bytes/local/drop_behind.h"

#include <fcntl.h>

#include "base/checked.h"

namespace hfshard {
namespace {
// Bounds the memory for many short ranges. A thousand of 256 KiB are 256 MiB.
constexpr std::size_t kMaxRanges = 1024;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLargestPage = std::uint64_t{2} << 20;
}  // namespace

DropBehind::DropBehind(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes), ring_(kMaxRanges) {}

void DropBehind::add(int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept {
  std::unique_lock lock(mutex_);
  while (count_ > 0 && (count_ == ring_.size() || bytes_ + length_bytes > keep_bytes_)) {
    const Range oldest = ring_[first_];
    bytes_ -= oldest.length;
    first_ = (first_ + 1) % ring_.size();
    --count_;
    lock.unlock();  // the other readers needn't wait for this
    drop_from_cache(oldest.fd, oldest.offset, oldest.length);
    lock.lock();
  }
  ring_[(first_ + count_) % ring_.size()] = {fd, offset_bytes, length_bytes};
  ++count_;
  bytes_ += length_bytes;
}

void drop_from_cache(int fd, std::uint64_t offset_bytes, std::uint64_t length_bytes) noexcept {
  if (length_bytes == 0) return;  // 0 means the whole file to posix_fadvise
  // The cache frees whole pages, and some are large. The page at the range's begin is fully used
  // only now.
  const std::uint64_t begin = offset_bytes / kLargestPage * kLargestPage;
  const std::uint64_t end = round_up(offset_bytes + length_bytes, kPage);
  (void)::posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                        POSIX_FADV_DONTNEED);
}

}  // namespace hfshard
