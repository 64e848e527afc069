#include "run/engine/far_reads.h"

#include <algorithm>

namespace hfshard {

FarReads::FarReads(const Plan& plan, const OpenSources& sources, const ByteRange& share,
                   const JournalState* done, const Budget& budget)
    : plan_(plan), sources_(sources), feed_(plan, share.begin, share.end, done) {
  if (budget.ahead_bytes == 0) return;
  ahead_.emplace(sources, feed_, budget.ahead_bytes, plan.limits().request_bytes);
}

std::optional<NetworkUse> FarReads::network_use() {
  auto use = plan_.catalog().directory.network_use();
  if (!use) return use;
  if (ahead_) {
    use->used_bytes = ahead_->fed_bytes();
  } else {  // each range was read by who wanted it
    for (FileRange next; feed_.next(next);) use->used_bytes += next.range.end - next.range.begin;
  }
  use->unchecked_bytes = use->used_bytes;
  return use;
}

std::function<std::uint64_t()> link_bytes(const Plan& plan) {
  const StorePath& directory = plan.catalog().directory;
  if (std::ranges::count(far_files(plan.catalog()), true) == 0) return {};
  return [&directory] { return directory.network_use().value_or(NetworkUse{}).bytes; };
}

}  // namespace hfshard
