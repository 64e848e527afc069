#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "hfshard/error.h"

namespace hfshard {

/// Computes the CRC-32 of wholes that are read in parts, in any order and by several threads. Joins
/// adjacent parts. Only stores wholes with missing parts. Thread-safe.
class CrcParts {
 public:
  /// Adds a part of a whole with `whole_bytes`. Returns the CRC of the whole once it is complete. A
  /// part that is read twice counts once.
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
