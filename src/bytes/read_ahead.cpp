#include "bytes/read_ahead.h"

#include <algorithm>
#include <utility>

namespace hfshard {
namespace {

constexpr std::uint64_t kWindowRequests = 4;
constexpr std::size_t kWindowRanges = 4096;
// Cheaper to read than to ask twice, as long as it stays this share of all that is read.
constexpr std::uint64_t kGapBytes = std::uint64_t{64} << 10;
constexpr std::uint64_t kGapShare = 100;

std::uint64_t length(const ByteRange& range) { return range.end - range.begin; }

}  // namespace

ReadAhead::ReadAhead(const std::vector<std::unique_ptr<SourceFile>>& files, RangeFeed& feed,
                     std::uint64_t memory_bytes, std::uint64_t request_bytes)
    : files_(files), feed_(feed), arena_(memory_bytes), request_bytes_(request_bytes) {
  const std::lock_guard lock(mutex_);
  fill();
}

ReadAhead::~ReadAhead() {
  for (Request& request : started_) request.read.reset();  // before its memory goes
}

// Makes requests of the next ranges: those that lie together in one, in the order in which the
// first of each will be used.
bool ReadAhead::plan_window() {
  struct Fed {
    FileRange range;
    std::size_t order = 0;
  };
  std::vector<Fed> window;
  std::uint64_t window_bytes = 0;
  const std::uint64_t most_window =
      std::min(kWindowRequests * request_bytes_, arena_.size_bytes() / 2);
  const std::uint64_t most_request = std::min(request_bytes_, arena_.size_bytes() / 4);
  FileRange next;
  while (window_bytes < most_window && window.size() < kWindowRanges) {
    if (!feed_.next(next)) {
      fed_ = true;
      break;
    }
    window.push_back({next, window.size()});
    window_bytes += length(next.range);
  }
  if (window.empty()) return false;
  std::ranges::sort(window, {}, [](const Fed& fed) { return fed.range; });
  struct Ordered {
    Request request;
    std::size_t order = 0;
  };
  std::vector<Ordered> made;
  for (const Fed& fed : window) {
    if (!made.empty()) {
      Ordered& last = made.back();
      FileRange& hull = last.request.range;
      const std::uint64_t begin = fed.range.range.begin;
      const std::uint64_t gap = begin > hull.range.end ? begin - hull.range.end : 0;
      const std::uint64_t end = std::max(hull.range.end, fed.range.range.end);
      if (hull.file == fed.range.file && end - hull.range.begin <= most_request &&
          gap <= kGapBytes && (gap_bytes_ + gap) * kGapShare <= fed_bytes_ + window_bytes) {
        hull.range.end = end;
        gap_bytes_ += gap;
        last.request.parts.push_back(fed.range);
        last.order = std::min(last.order, fed.order);
        continue;
      }
    }
    made.push_back({{fed.range, {fed.range}, {}, nullptr, 0}, fed.order});
  }
  fed_bytes_ += window_bytes;
  std::ranges::sort(made, {}, &Ordered::order);
  for (Ordered& one : made) planned_.push_back(std::move(one.request));
  return true;
}

void ReadAhead::fill() {
  for (;;) {
    if (planned_.empty() && (fed_ || !plan_window())) return;
    Request& next = planned_.front();
    std::erase_if(next.parts, [&](const FileRange& part) {
      const auto alone = read_alone_.find(part);
      if (alone == read_alone_.end()) return false;
      read_alone_.erase(alone);
      return true;
    });
    const std::uint64_t size = length(next.range.range);
    if (next.parts.empty() || size > arena_.size_bytes()) {
      planned_.pop_front();
      continue;
    }
    next.block = arena_.try_take(size);
    if (next.block.bytes().empty()) return;
    next.read =
        files_[next.range.file]->start_read(next.range.range.begin, next.block.bytes().first(size));
    next.left = next.parts.size();
    if (next.read) {
      const auto place = started_.insert(started_.end(), std::move(next));
      for (const FileRange& part : place->parts) there_.emplace(part, place);
      place->parts = {};
    }
    planned_.pop_front();
  }
}

std::optional<std::span<const std::byte>> ReadAhead::take(const FileRange& range) {
  std::unique_lock lock(mutex_);
  const auto found = there_.find(range);
  if (found == there_.end()) {
    read_alone_.insert(range);
    return std::nullopt;
  }
  const Place place = found->second;
  there_.erase(found);
  in_use_.emplace(range, place);
  PendingRead& read = *place->read;
  lock.unlock();
  read.wait();
  return place->block.bytes().subspan(range.range.begin - place->range.range.begin,
                                      length(range.range));
}

void ReadAhead::done(const FileRange& range) {
  const std::lock_guard lock(mutex_);
  const auto found = in_use_.find(range);
  if (found == in_use_.end()) return;
  const Place place = found->second;
  in_use_.erase(found);
  if (--place->left == 0) started_.erase(place);
  fill();
}

std::uint64_t ReadAhead::fed_bytes() const {
  const std::lock_guard lock(mutex_);
  return fed_bytes_;
}

}  // namespace hfshard
