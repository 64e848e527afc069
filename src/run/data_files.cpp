#include "run/data_files.h"

#include <algorithm>

#include "bytes/files.h"
#include "bytes/storage.h"

namespace hfshard {
namespace {

// Linux caches a write in pages as large as the call: beyond 2 MiB those come from memory that a
// virtual machine never touched, which its host maps at 0.3 to 0.5 GB/s (bench/README.md).
constexpr std::size_t kBufferedBlock = std::size_t{1} << 20;
constexpr std::size_t kDirectBlock = std::size_t{8} << 20;

}  // namespace

OutputFile& DataFiles::open(std::uint32_t file) {
  const std::lock_guard lock(mutex_);
  auto& slot = open_[file];
  if (!slot) {
    slot = std::make_unique<OutputFile>(join_path(root_, plan_.file_path(file)), mode_);
    count_choice(choices_, slot->mode(), slot->why());
    new_names_ = true;
  }
  return *slot;
}

void DataFiles::write(std::uint32_t file, std::uint64_t address,
                      std::span<const std::byte> region) {
  OutputFile& out = open(file);
  const bool direct = out.mode() == IoMode::direct;
  const std::size_t most = direct ? kDirectBlock : kBufferedBlock;
  std::uint64_t offset = address - plan_.file_begin[file];
  while (!region.empty()) {
    const auto block = region.first(std::min(region.size(), most));
    out.write_at(offset, block);
    if (!direct) out.start_writeback(offset, block.size());
    offset += block.size();
    region = region.subspan(block.size());
  }
}

void DataFiles::written_to(std::uint64_t address) {
  if (address < plan_.limits.cached_bytes) return;
  const std::uint64_t end = address - plan_.limits.cached_bytes;
  while (settled_ < end) {
    const auto after = std::ranges::upper_bound(plan_.file_begin, settled_);
    const auto file = static_cast<std::uint32_t>(after - plan_.file_begin.begin() - 1);
    const std::uint64_t until = std::min(end, *after);
    OutputFile* out = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (const auto slot = open_.find(file); slot != open_.end()) out = slot->second.get();
    }
    if (out != nullptr) out->settle(settled_ - plan_.file_begin[file], until - settled_);
    settled_ = until;
  }
}

void DataFiles::sync(std::uint32_t first, std::uint32_t last) {
  for (std::uint32_t file = first; file <= last; ++file) {
    OutputFile& out = open(file);
    out.sync_data();
    if (file != last) out.drop_cached();
  }
  const std::lock_guard lock(mutex_);
  if (new_names_) fsync_directory(parent_path(join_path(root_, plan_.file_path(first))));
  new_names_ = false;
  open_.erase(open_.lower_bound(first), open_.lower_bound(last));
}

std::vector<IoChoice> DataFiles::choices() const {
  const std::lock_guard lock(mutex_);
  return choices_;
}

}  // namespace hfshard
