#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/arena.h"
#include "bytes/local/source.h"

namespace hfshard {

/// A range of one of several files.
struct FileRange {
  std::uint32_t file = 0;
  ByteRange range;
  friend auto operator<=>(const FileRange& a, const FileRange& b) noexcept {
    return std::tie(a.file, a.range.begin, a.range.end) <=>
           std::tie(b.file, b.range.begin, b.range.end);
  }
  friend bool operator==(const FileRange&, const FileRange&) = default;
};

/// Announces reads, in approximately their order.
class RangeFeed {
 public:
  virtual ~RangeFeed() = default;
  /// Fills `next`. Returns false at the end.
  virtual bool next(FileRange& next) = 0;
};

/// Reads ranges of remote files before they are requested, many at a time. Joins ranges that are
/// adjacent or nearly so. If memory didn't suffice for a range, its caller reads it alone.
/// Thread-safe.
class ReadAhead {
 public:
  /// Reads into its own arena of `memory_bytes`, which the caller has budgeted. `files` and `feed`
  /// must outlive this. Skips ranges of local files. For consecutive ranges, a read has
  /// `request_bytes` to twice as many, or one range.
  ReadAhead(const std::vector<std::unique_ptr<SourceFile>>& files, RangeFeed& feed,
            std::uint64_t memory_bytes, std::uint64_t request_bytes);
  /// Ends reads in progress.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// Returns the bytes of a range, once they are there. Empty if they aren't being read, because no
  /// range with exactly these ends was fed so far. Valid until `done`. Throws: as the read.
  std::optional<std::span<const std::byte>> take(const FileRange& range);
  /// Releases a range from `take` after its use.
  void done(const FileRange& range);

  /// Returns the bytes of all fed ranges.
  std::uint64_t fed_bytes() const;

 private:
  // One read, with those of its ranges that are still needed.
  struct Request {
    FileRange range;
    std::vector<FileRange> parts;  // until it starts
    Arena::Block block;
    std::unique_ptr<PendingRead> read;
    std::size_t left = 0;  // parts that are still needed
  };
  using Place = std::list<Request>::iterator;
  // A fed range and its number.
  struct Fed {
    FileRange range;
    std::uint64_t order = 0;
  };
  // Ranges that become one request.
  struct Joined {
    FileRange hull;
    std::vector<Fed> parts;
    std::uint64_t order = 0;  // of the first use
    std::uint64_t last = 0;   // of the last use
    std::uint64_t gap_bytes = 0;
  };

  void leave_out_alone(Request& request);
  void fill();
  bool plan_window();
  std::vector<Fed> feed_window();
  std::vector<Joined> join(std::vector<Fed> window);
  void keep_open(std::vector<Joined>& made);

  const std::vector<std::unique_ptr<SourceFile>>& files_;
  RangeFeed& feed_;
  Arena arena_;
  std::uint64_t request_bytes_;
  mutable std::mutex mutex_;
  bool fed_ = false;             // the feed has ended
  std::uint64_t orders_ = 0;     // number of fed ranges
  std::vector<Fed> open_;        // parts of a request that can grow
  std::deque<Request> planned_;  // not started, in order of use
  std::list<Request> started_;
  std::multimap<FileRange, Place> there_;   // not taken yet
  std::multimap<FileRange, Place> in_use_;  // taken
  std::multiset<FileRange> read_alone_;     // requested before they were started
  std::uint64_t fed_bytes_ = 0;
  std::uint64_t gap_bytes_ = 0;  // between ranges, read with them
};

}  // namespace hfshard
