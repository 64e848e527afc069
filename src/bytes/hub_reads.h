#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "bytes/hub_client.h"
#include "bytes/hub_file.h"

namespace hfshard {

class RangeRead;

/// Bytes of a file on their way into memory, which nothing is written to any more once this is
/// gone: what has not ended is given up then. Must not outlive the client.
class HubRead {
 public:
  HubRead() = default;
  ~HubRead() { end(); }
  HubRead(HubRead&&) noexcept = default;
  HubRead& operator=(HubRead&& other) noexcept;
  /// Throws: what went wrong, cancelled (HubOptions::stop).
  void wait() const;
  bool is_done() const;

 private:
  friend class HubReads;
  friend class RangeRead;
  struct State;
  explicit HubRead(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void end() noexcept;
  std::shared_ptr<State> state_;
};

/// Ranges of files, many at a time: as many connections as make it faster (at most the options'
/// number), tried again where that may help. Thread-safe.
class HubReads {
 public:
  explicit HubReads(HubClient& client) : client_(client) {}
  /// Starts reading; `out` is filled.
  HubRead start(std::shared_ptr<HubFile> file, std::uint64_t offset_bytes,
                std::span<std::byte> out);

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
  unsigned limit_ = 4;  // connections that are in use at most, now
  unsigned active_ = 0;
  unsigned failures_ = 0;                          // one after the other, of all reads
  std::chrono::steady_clock::time_point resumes_;  // nothing new begins before
  bool paused_ = false;                            // until then
  std::chrono::steady_clock::time_point since_;
  std::uint64_t came_bytes_ = 0;  // since then
  double best_rate_ = 0;          // with `proved_` connections
  unsigned proved_ = 4;
  unsigned windows_to_next_ = 0;  // before more are tried
};

}  // namespace hfshard
