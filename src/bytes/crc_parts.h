#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "hfshard/error.h"

namespace hfshard {

/// The CRC-32 of wholes that are read in parts, perhaps by several threads and in any order: parts
/// that meet are joined. Keeps only the wholes of which some parts are missing. Thread-safe.
class CrcParts {
 public:
  /// A part of a whole of so many bytes was read. The CRC of the whole, once its last part is
  /// there; what was read twice counts once.
  std::optional<std::uint32_t> add(std::uint64_t whole, ByteRange part, std::uint32_t crc,
                                   std::uint64_t whole_bytes);

 private:
  struct Part {
    std::uint64_t end = 0;
    std::uint32_t crc = 0;
  };
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::map<std::uint64_t, Part>> open_;  // by whole, by begin
};

}  // namespace hfshard
