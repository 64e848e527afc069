#include "run/engine/data_files.h"

#include <algorithm>
#include <utility>

#include "base/coding.h"
#include "bytes/local/files.h"
#include "bytes/local/storage.h"

namespace hfshard {
namespace {

// Linux caches a write in pages as large as the call. Beyond 2 MiB, they come from memory that a
// virtual machine never touched. Its host maps that at 0.3 to 0.5 GB/s (bench/README.md).
constexpr std::size_t kBufferedBlock = std::size_t{1} << 20;
constexpr std::size_t kDirectBlock = std::size_t{8} << 20;
constexpr std::size_t kPageBytes = 4096;

// If a region begins or ends within a page, that part is its own block. So the rest can bypass the
// page cache if requested, and no page is written twice.
std::size_t block_bytes(std::uint64_t offset_bytes, std::size_t left, std::size_t most) {
  if (const std::size_t odd = offset_bytes % kPageBytes; odd != 0)
    return std::min(left, kPageBytes - odd);
  if (left < kPageBytes) return left;
  return std::min(most, left / kPageBytes * kPageBytes);
}

}  // namespace

OutputFile& DataFiles::open(std::uint32_t file) {
  const std::lock_guard lock(mutex_);
  auto& slot = open_[file];
  if (!slot) {
    auto opened = std::make_unique<OutputFile>(join_path(root_, names_.file_path(file)), mode_);
    count_choice(choices_, opened->mode(), opened->why());
    // A resumed run writes them again, in case the file is new. This comes before any other use, so
    // the sync of the file's data makes it durable too.
    std::uint64_t at = 0;
    leading_(file, [&](std::span<const std::byte> bytes) {
      opened->write_at(at, bytes);
      at += bytes.size();
    });
    slot = std::move(opened);
    new_names_ = true;
  }
  return *slot;
}

void DataFiles::write(std::uint32_t file, std::uint64_t offset_bytes,
                      std::span<const std::byte> region) {
  OutputFile& out = open(file);
  const bool direct = out.mode() == IoMode::direct;
  const std::size_t most = direct ? kDirectBlock : kBufferedBlock;
  while (!region.empty()) {
    const auto block = region.first(block_bytes(offset_bytes, region.size(), most));
    out.write_at(offset_bytes, block);
    // The next region writes back a page that it shares.
    const std::uint64_t whole = (offset_bytes + block.size()) / kPageBytes * kPageBytes;
    if (!direct && whole > offset_bytes) out.start_writeback(offset_bytes, whole - offset_bytes);
    offset_bytes += block.size();
    region = region.subspan(block.size());
  }
}

void DataFiles::written(std::uint32_t file, ByteRange range) {
  if (!cached_.empty() && cached_.back().file == file && cached_.back().range.end == range.begin) {
    cached_.back().range.end = range.end;
  } else {
    cached_.push_back({file, range});
  }
  cached_bytes_ += range.end - range.begin;
  while (cached_bytes_ > most_cached_) {
    auto& [oldest, bytes] = cached_.front();
    const std::uint64_t over = cached_bytes_ - most_cached_;
    const std::uint64_t size = std::min(over, bytes.end - bytes.begin);
    OutputFile* out = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (const auto slot = open_.find(oldest); slot != open_.end()) out = slot->second.get();
    }
    if (out != nullptr) out->settle(bytes.begin, size);
    bytes.begin += size;
    cached_bytes_ -= size;
    if (bytes.begin == bytes.end) cached_.pop_front();
  }
}

void DataFiles::sync(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t file = first; file <= last; ++file) {
    OutputFile& out = open(file);
    out.sync_data();
    if (file != last) out.drop_cached();
  }
  const std::lock_guard lock(mutex_);
  if (new_names_) fsync_directory(parent_path(join_path(root_, names_.file_path(first))));
  new_names_ = false;
  open_.erase(open_.lower_bound(first), open_.lower_bound(last));
}

std::vector<IoChoice> DataFiles::choices() const {
  const std::lock_guard lock(mutex_);
  return choices_;
}

}  // namespace hfshard
