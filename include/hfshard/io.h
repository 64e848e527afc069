#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hfshard {

/// How file data is read and written. Never affects bytes.
enum class IoMode : std::uint8_t {
  automatic,  ///< depends on the file system
  direct,     ///< bypasses the page cache
  buffered,   ///< uses a bounded part of the page cache
  mmap,       ///< maps sources; outputs are buffered
};

/// Returns the name in `--io`: `auto`, `direct`, `buffered`, `mmap`.
std::string_view to_string(IoMode mode) noexcept;

/// The mode that was chosen for some files, and the reason.
struct IoChoice {
  IoMode mode = IoMode::buffered;
  std::string why;
  std::uint64_t files = 0;
};

/// Network traffic of a run.
struct NetworkUse {
  std::uint64_t requests = 0;       ///< all, with listings and redirects
  std::uint64_t data_requests = 0;  ///< for bytes of files
  std::uint64_t bytes = 0;          ///< with headers and failed attempts
  std::uint64_t used_bytes = 0;     ///< read by the mapping's rules
  /// Bytes without a checksum. The Hub lists a digest only for whole files, read front to back.
  std::uint64_t unchecked_bytes = 0;
};

/// Reads a whole file as text. Throws: not_found, bad_input (not a regular file), corrupt (it
/// shrank), limit (more than `max_bytes`), io.
std::string read_file(const std::string& path, std::uint64_t max_bytes = std::uint64_t{1} << 28);

}  // namespace hfshard
