#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "hfshard/convert.h"

namespace hfshard {

/// The work of a pipeline thread. `apply` includes `read`.
enum class Busy : std::uint8_t { read, apply, store, in_order };

/// Sums the times of one run's threads, and reports them. Thread-safe, except advanced().
class StageMeter {
 public:
  /// For a remote source, `link_bytes` returns the bytes received over the network. The Reporter
  /// has it while this lives.
  StageMeter(Reporter& reporter, unsigned threads,
             const std::function<std::uint64_t()>& link_bytes = {});
  ~StageMeter();
  StageMeter(const StageMeter&) = delete;
  StageMeter& operator=(const StageMeter&) = delete;
  /// Adds one finished piece of work of a thread. It costs two clock calls and one addition.
  void add(Busy what, std::chrono::nanoseconds time) noexcept {
    ns_[static_cast<std::size_t>(what)].fetch_add(static_cast<std::uint64_t>(time.count()),
                                                  std::memory_order_relaxed);
  }
  StageTimes times() const;
  /// Calls Reporter::timed, then Reporter::advanced. One thread at a time.
  void advanced(std::uint64_t bytes);
  Reporter& reporter() const noexcept { return reporter_; }
  unsigned threads() const noexcept { return threads_; }

 private:
  double seconds(Busy what) const noexcept;

  Reporter& reporter_;
  unsigned threads_;
  bool is_far_;
  std::array<std::atomic<std::uint64_t>, 4> ns_{};
};

/// Measures its own lifetime, also if an exception ends it. Does nothing without a meter.
class StageSpan {
 public:
  StageSpan(StageMeter* meter, Busy what) noexcept
      : meter_(meter), what_(what), began_(meter ? Clock::now() : Clock::time_point()) {}
  ~StageSpan() {
    if (meter_ != nullptr) meter_->add(what_, Clock::now() - began_);
  }
  StageSpan(const StageSpan&) = delete;
  StageSpan& operator=(const StageSpan&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  StageMeter* meter_;
  Busy what_;
  Clock::time_point began_;
};

}  // namespace hfshard
