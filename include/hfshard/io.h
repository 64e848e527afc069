#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hfshard {

/// How the data of files moves. Never affects bytes.
enum class IoMode : std::uint8_t {
  automatic,  ///< each file as it suits where it lies
  direct,     ///< past the page cache
  buffered,   ///< through the page cache, of which a bounded part is used
  mmap,       ///< sources in mapped windows; outputs are buffered
};

/// As `--io` spells it: `auto`, `direct`, `buffered`, `mmap`.
std::string_view to_string(IoMode mode) noexcept;

/// What was chosen for some files, and why.
struct IoChoice {
  IoMode mode = IoMode::buffered;
  std::string why;
  std::uint64_t files = 0;
};

}  // namespace hfshard
