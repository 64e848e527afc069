#include "bytes/local/read_ahead.h"

#include <algorithm>
#include <utility>

namespace hfshard {
namespace {

constexpr std::uint64_t kWindowRequests = 8;
constexpr std::size_t kWindowRanges = 4096;
// Reading a gap is cheaper than a second request, up to this share of all bytes.
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

// Returns the open ranges and the next ones of the feed.
std::vector<ReadAhead::Fed> ReadAhead::feed_window() {
  std::vector<Fed> window = std::exchange(open_, {});
  const std::uint64_t most_bytes =
      std::min(kWindowRequests * request_bytes_, arena_.size_bytes() / 2);
  const std::size_t most_ranges = window.size() + kWindowRanges;
  std::uint64_t bytes = 0;
  FileRange next;
  while (!fed_ && bytes < most_bytes && window.size() < most_ranges) {
    if (!feed_.next(next)) {
      fed_ = true;
      break;
    }
    window.push_back({next, orders_++});
    bytes += length(next.range);
  }
  fed_bytes_ += bytes;
  return window;
}

// Joins adjacent ranges, in the order of files.
std::vector<ReadAhead::Joined> ReadAhead::join(std::vector<Fed> window) {
  std::ranges::sort(window, {}, [](const Fed& fed) { return fed.range; });
  const std::uint64_t most = std::min(2 * request_bytes_, arena_.size_bytes() / 4);
  std::vector<Joined> made;
  for (const Fed& fed : window) {
    if (!made.empty()) {
      Joined& last = made.back();
      ByteRange& hull = last.hull.range;
      const std::uint64_t begin = fed.range.range.begin;
      const std::uint64_t gap = begin > hull.end ? begin - hull.end : 0;
      const std::uint64_t end = std::max(hull.end, fed.range.range.end);
      if (last.hull.file == fed.range.file && length(hull) < request_bytes_ &&
          end - hull.begin <= most && gap <= kGapBytes &&
          (gap_bytes_ + gap) * kGapShare <= fed_bytes_) {
        hull.end = end;
        gap_bytes_ += gap;
        last.gap_bytes += gap;
        last.parts.push_back(fed);
        last.order = std::min(last.order, fed.order);
        last.last = std::max(last.last, fed.order);
        continue;
      }
    }
    made.push_back({fed.range, {fed}, fed.order, fed.order, 0});
  }
  return made;
}

// The last range probably continues in the next window, so it isn't requested in two parts.
void ReadAhead::keep_open(std::vector<Joined>& made) {
  if (fed_) return;
  const auto last = std::ranges::max_element(made, {}, &Joined::last);
  if (length(last->hull.range) >= request_bytes_) return;
  gap_bytes_ -= last->gap_bytes;
  open_ = std::move(last->parts);
  made.erase(last);
}

// Makes requests for the next ranges, ordered by the first use of each.
bool ReadAhead::plan_window() {
  while (planned_.empty() && !(fed_ && open_.empty())) {
    std::vector<Fed> window = feed_window();
    if (window.empty()) return false;
    std::vector<Joined> made = join(std::move(window));
    keep_open(made);
    std::ranges::sort(made, {}, &Joined::order);
    for (const Joined& one : made) {
      Request& request = planned_.emplace_back();
      request.range = one.hull;
      for (const Fed& part : one.parts) request.parts.push_back(part.range);
    }
  }
  return !planned_.empty();
}

// Removes parts that callers have read alone meanwhile.
void ReadAhead::leave_out_alone(Request& request) {
  std::erase_if(request.parts, [&](const FileRange& part) {
    const auto alone = read_alone_.find(part);
    if (alone == read_alone_.end()) return false;
    read_alone_.erase(alone);
    return true;
  });
}

void ReadAhead::fill() {
  for (;;) {
    if (planned_.empty() && !plan_window()) return;
    Request& next = planned_.front();
    leave_out_alone(next);
    if (next.parts.empty()) {
      planned_.pop_front();
      continue;
    }
    ByteRange& hull = next.range.range;  // of the remaining parts, which are sorted
    hull = {next.parts.front().range.begin, next.parts.front().range.end};
    for (const FileRange& part : next.parts) hull.end = std::max(hull.end, part.range.end);
    const std::uint64_t size = length(hull);
    if (size > arena_.size_bytes()) {
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
