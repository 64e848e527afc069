#include "run/engine/record.h"

#include <algorithm>

namespace hfshard {

bool JournalState::covers(std::uint64_t begin, std::uint64_t end) const {
  auto at = std::ranges::upper_bound(done, begin, {}, &JournalRecord::end);
  while (at != done.end() && at->begin <= begin && begin < end) {
    begin = at->end;
    ++at;
  }
  return begin >= end;
}

std::uint64_t JournalState::done_bytes(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t bytes = 0;
  for (const JournalRecord& record : done) {
    const std::uint64_t from = std::max(record.begin, begin);
    bytes += std::max(std::min(record.end, end), from) - from;
  }
  return bytes;
}

}  // namespace hfshard
