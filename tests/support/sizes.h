#pragma once

#include <cstdint>

namespace hfshard {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// Returns how many of `all` random cases a test tries. With a sanitizer, which takes ten times as
/// long, it is a third: enough for memory errors. The release preset tries all.
constexpr int cases(int all) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return (all + 2) / 3;
#else
  return all;
#endif
}

}  // namespace hfshard
