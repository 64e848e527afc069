#include "bytes/store/open_files.h"

namespace hfshard {

std::shared_ptr<const SourceFile> OpenFiles::open(std::uint32_t number,
                                                  const StorePath& path) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, source] : open_) {
    if (known == number) return source;
  }
  std::shared_ptr<const SourceFile> source = path.open();
  if (open_.size() < kMax) {
    open_.emplace_back(number, source);
  } else {
    open_[evict_++ % kMax] = {number, source};
  }
  return source;
}

}  // namespace hfshard
