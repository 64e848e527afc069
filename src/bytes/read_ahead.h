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
#include "bytes/source.h"

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

/// Says what will be read, in about the order in which it will.
class RangeFeed {
 public:
  virtual ~RangeFeed() = default;
  /// Fills `next`; false at the end.
  virtual bool next(FileRange& next) = 0;
};

/// Reads ranges of files that are far away before they are asked for, many at a time. Ranges that
/// lie side by side, or nearly, are one read. Whoever asks for a range that is not under way, since
/// memory did not reach, reads it alone. Thread-safe.
class ReadAhead {
 public:
  /// Reads into `memory_bytes` of its own arena, which the caller has counted. `files` and `feed`
  /// must outlive this; ranges of files that are near are passed over. Where ranges follow each
  /// other, a read is of `request_bytes` to twice as many, or one range.
  ReadAhead(const std::vector<std::unique_ptr<SourceFile>>& files, RangeFeed& feed,
            std::uint64_t memory_bytes, std::uint64_t request_bytes);
  /// Ends what is under way.
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  /// The bytes of a range, once they are there; nothing if they are not under way: no range with
  /// exactly these ends was fed, or not yet. Valid until `done`. Throws: what reading throws.
  std::optional<std::span<const std::byte>> take(const FileRange& range);
  /// A range that `take` gave was used.
  void done(const FileRange& range);

  /// Of the ranges that were fed.
  std::uint64_t fed_bytes() const;

 private:
  // One read: the ranges in it, as far as nobody is done with them.
  struct Request {
    FileRange range;
    std::vector<FileRange> parts;  // until it starts
    Arena::Block block;
    std::unique_ptr<PendingRead> read;
    std::size_t left = 0;  // parts that nobody is done with
  };
  using Place = std::list<Request>::iterator;
  // A range that was fed, and as which.
  struct Fed {
    FileRange range;
    std::uint64_t order = 0;
  };
  // Ranges that become one request.
  struct Joined {
    FileRange hull;
    std::vector<Fed> parts;
    std::uint64_t order = 0;  // of the first that will be used
    std::uint64_t last = 0;   // and of the last
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
  bool fed_ = false;             // all of it
  std::uint64_t orders_ = 0;     // how many ranges were fed
  std::vector<Fed> open_;        // of a request that what is fed next may belong to
  std::deque<Request> planned_;  // not yet started, in the order of use
  std::list<Request> started_;
  std::multimap<FileRange, Place> there_;   // to be taken
  std::multimap<FileRange, Place> in_use_;  // taken
  std::multiset<FileRange> read_alone_;     // asked for before they were started
  std::uint64_t fed_bytes_ = 0;
  std::uint64_t gap_bytes_ = 0;  // between ranges that were read with them
};

}  // namespace hfshard
