#include "bytes/local/crc_parts.h"

#include <iterator>

#include "base/crc32.h"

namespace hfshard {

std::optional<std::uint32_t> CrcParts::add(std::uint64_t whole, ByteRange part, std::uint32_t crc,
                                           std::uint64_t whole_bytes) {
  const std::lock_guard lock(mutex_);
  auto& parts = open_[whole];
  auto next = parts.lower_bound(part.begin);
  if ((next != parts.end() && next->first < part.end) ||
      (next != parts.begin() && std::prev(next)->second.end > part.begin))
    return std::nullopt;
  if (next != parts.end() && next->first == part.end) {
    crc = crc32_joined(crc, next->second.crc, next->second.end - next->first);
    part.end = next->second.end;
    next = parts.erase(next);
  }
  if (next != parts.begin() && std::prev(next)->second.end == part.begin) {
    const auto before = std::prev(next);
    crc = crc32_joined(before->second.crc, crc, part.end - part.begin);
    part.begin = before->first;
    before->second = {part.end, crc};
  } else {
    parts[part.begin] = {part.end, crc};
  }
  if (part.begin != 0 || part.end != whole_bytes) return std::nullopt;
  open_.erase(whole);
  return crc;
}

}  // namespace hfshard
