#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>

#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_file.h"
#include "bytes/local/arrivals.h"

namespace hfshard {

class RangeRead;

/// The place for bytes of a file that a killed run would lose. Empty: nowhere.
struct KeptIn {
  std::shared_ptr<Arrivals> arrivals;
  std::uint32_t file = 0;  ///< number of the file there
};

/// Reads bytes of a file into memory. Its destructor gives up an unfinished read, and nothing
/// writes to the memory afterwards. Must not outlive the client.
class HubRead {
 public:
  HubRead() = default;
  ~HubRead() { end(); }
  HubRead(HubRead&&) noexcept = default;
  HubRead& operator=(HubRead&& other) noexcept;
  /// Blocks until the bytes are there. Throws: as the read, cancelled (HubOptions::stop).
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

/// Reads ranges of files, many at a time. Uses as many connections as make it faster, up to the
/// options' limit. Retries if that can help. Thread-safe.
class HubReads {
 public:
  explicit HubReads(HubClient& client);
  /// Starts to fill `out`.
  HubRead start(std::shared_ptr<HubFile> file, std::uint64_t offset_bytes, std::span<std::byte> out,
                const KeptIn& kept_in = {});

 private:
  friend class RangeRead;
  bool pause();
  void pump();
  void failed(std::chrono::milliseconds wait);
  bool is_hopeless() const;
  void came(std::uint64_t bytes);
  void slow_down();

  HubClient& client_;
  // Only for the loop's thread.
  std::deque<std::shared_ptr<RangeRead>> waiting_;
  unsigned limit_;  // most connections in use, now
  unsigned active_ = 0;
  unsigned failures_ = 0;                          // consecutive, of all reads
  std::chrono::steady_clock::time_point resumes_;  // earliest begin of new reads
  bool paused_ = false;                            // until then
  std::chrono::steady_clock::time_point since_;
  std::uint64_t came_bytes_ = 0;  // since then
  double best_rate_ = 0;          // with `proved_` connections
  unsigned proved_;
  unsigned windows_to_next_ = 0;  // before it tries more
};

}  // namespace hfshard
