#include "run/engine/far_reads.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace hfshard {
namespace {

// Enough for a unit of f32 that becomes bf16, and for what is read ahead. Twice as much stays free.
constexpr std::uint64_t kMostArrivalBytes = std::uint64_t{512} << 20;
constexpr std::uint64_t kSpareShare = 3;
// Bytes are kept if no record came for this share of the time between records.
constexpr double kPatience = 0.4;

std::string arrivals_name(const RunOptions& options) {
  return fmt::format("arrived.{}-{}", options.worker, options.workers);
}

}  // namespace

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

std::shared_ptr<Arrivals> keep_arrivals(const Plan& plan, OpenSources& sources,
                                        const std::string& staging, const RunOptions& options,
                                        std::uint64_t spare_bytes) {
  const std::vector<bool> far = far_files(plan.catalog());
  const std::uint64_t most = std::min(kMostArrivalBytes, spare_bytes / kSpareShare);
  if (std::ranges::count(far, true) == 0 || most == 0) return nullptr;
  const auto patience = std::chrono::milliseconds(
      static_cast<std::int64_t>(kPatience * static_cast<double>(plan.limits().commit_ms)));
  auto out = std::make_shared<Arrivals>(staging, arrivals_name(options), most, patience);
  for (std::uint32_t file = 0; file < sources.size(); ++file) {
    if (far[file]) sources[file]->keep_in(out, file);
  }
  return out;
}

std::uint64_t arrived_bytes(const std::string& staging, const RunOptions& options) {
  return arrived_bytes(staging, arrivals_name(options));
}

std::function<std::uint64_t()> link_bytes(const Plan& plan) {
  const StorePath& directory = plan.catalog().directory;
  if (std::ranges::count(far_files(plan.catalog()), true) == 0) return {};
  return [&directory] { return directory.network_use().value_or(NetworkUse{}).bytes; };
}

}  // namespace hfshard
