#include "base/inner_path.h"

#include <algorithm>

namespace hfshard {

// Source: google/tensorstore tensorstore/kvstore/file/util.cc for what a path may not hold.
bool is_inner_path(std::string_view path) noexcept {
  if (path.find('\0') != std::string_view::npos) return false;
  while (true) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == path.size()) return true;
    path.remove_prefix(end + 1);
  }
}

}  // namespace hfshard
