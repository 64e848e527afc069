#include "bytes/open_files.h"

namespace hfshard {

std::shared_ptr<const FileSource> OpenFiles::open(std::uint32_t number,
                                                  const std::string& path) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, source] : open_) {
    if (known == number) return source;
  }
  auto source = std::make_shared<const FileSource>(path);
  if (open_.size() < kMax) {
    open_.emplace_back(number, source);
  } else {
    open_[evict_++ % kMax] = {number, source};
  }
  return source;
}

}  // namespace hfshard
