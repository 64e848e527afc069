#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>

#include "bytes/hub_client.h"
#include "bytes/hub_file.h"

namespace hfshard {

class RangeRead;

/// Bytes of a file on their way into memory. The memory must stay until `wait` returns.
class HubRead {
 public:
  /// Throws: what went wrong, cancelled (HubOptions::stop; then the memory may still be written to
  /// until `join` returns).
  void wait();
  /// Returns once nothing more is written to the memory, whatever came of it.
  void join() noexcept;
  bool is_done() const;

 private:
  friend class HubReads;
  friend class RangeRead;
  std::weak_ptr<RangeRead> read_;
  const std::atomic<bool>* stop_ = nullptr;
  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr failure_;
};

/// Ranges of files, many at a time: as many connections as make it faster (at most the options'
/// number), tried again where that may help. Thread-safe.
class HubReads {
 public:
  explicit HubReads(HubClient& client) : client_(client) {}
  /// Starts reading; `out` is filled.
  std::shared_ptr<HubRead> start(std::shared_ptr<HubFile> file, std::uint64_t offset_bytes,
                                 std::span<std::byte> out);
  /// Ends a read soon, if it has not ended: `wait` then throws cancelled.
  void cancel(const std::shared_ptr<HubRead>& read);
  /// Connections that are in use at most, now.
  unsigned limit() const noexcept { return limit_; }

 private:
  friend class RangeRead;
  void pump();
  void failed(std::chrono::milliseconds wait);
  bool is_hopeless() const;
  void came(std::uint64_t bytes);
  void slow_down();

  HubClient& client_;
  // Of the loop's thread.
  std::deque<std::shared_ptr<RangeRead>> waiting_;
  std::atomic<unsigned> limit_ = 4;
  unsigned active_ = 0;
  unsigned failures_ = 0;                          // one after the other, of all reads
  std::chrono::steady_clock::time_point resumes_;  // nothing new begins before
  bool paused_ = false;                            // until then
  std::chrono::steady_clock::time_point since_;
  std::uint64_t came_bytes_ = 0;  // since then
  double best_rate_ = 0;
};

}  // namespace hfshard
