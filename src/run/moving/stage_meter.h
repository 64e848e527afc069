#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "hfshard/convert.h"

namespace hfshard {

/// What a thread of the pipeline does; `apply` has `read` in it.
enum class Busy : std::uint8_t { read, apply, store, in_order };

/// Adds up what the threads of one run do, and tells a Reporter. Thread-safe, but for advanced().
class StageMeter {
 public:
  /// `link_bytes` says how many bytes have come over a network, where the source is far; the
  /// Reporter has it while this lives.
  StageMeter(Reporter& reporter, unsigned threads,
             const std::function<std::uint64_t()>& link_bytes = {});
  ~StageMeter();
  StageMeter(const StageMeter&) = delete;
  StageMeter& operator=(const StageMeter&) = delete;
  /// One piece of work of one thread ended; two calls of a clock and one addition each.
  void add(Busy what, std::chrono::nanoseconds time) noexcept {
    ns_[static_cast<std::size_t>(what)].fetch_add(static_cast<std::uint64_t>(time.count()),
                                                  std::memory_order_relaxed);
  }
  StageTimes times() const;
  /// Reporter::timed, then Reporter::advanced. Called from one thread at a time.
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

/// Counts while it lives, also when an exception ends it; without a meter it does nothing.
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
