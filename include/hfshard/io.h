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

/// What came over a network, and what for.
struct NetworkUse {
  std::uint64_t requests = 0;       ///< of listings, places and data
  std::uint64_t data_requests = 0;  ///< of those, for bytes of files
  std::uint64_t bytes = 0;          ///< of files; headers and tries in vain too
  std::uint64_t used_bytes = 0;     ///< of those that a run's rules asked for
  /// Of those, what no checksum covers: a digest in a listing is of a whole file, front to back.
  std::uint64_t unchecked_bytes = 0;
};

/// A whole file as text. Throws: not_found, bad_input (not a regular file), corrupt (it shrank),
/// limit (more than `max_bytes`), io.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 28);

}  // namespace hfshard
