#pragma once

#include <cstddef>

namespace hfshard {

/// Of every thread but the caller's.
inline constexpr std::size_t kThreadStackBytes = std::size_t{512} << 10;

/// The filters of a run as plain calls; an item is a pointer that travels through them.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;
  /// The next item, in order; nullptr ends the pipeline. One call at a time.
  virtual void* admit() = 0;
  /// Called concurrently.
  virtual void apply(void* item) = 0;
  /// Whether there is a filter `place` behind `apply`; in the order of admission, one call at a
  /// time.
  virtual bool places() const = 0;
  virtual void place(void* item) = 0;
  /// Called concurrently.
  virtual void store(void* item) = 0;
  /// In the order of admission. One call at a time.
  virtual void commit(void* item) = 0;
};

/// Runs the stages with oneTBB on `threads` threads of this call's own arena, at most `tokens`
/// items at a time, and returns when all have ended; several calls may be on at once. Rethrows the
/// first exception of any stage. The thread sanitizer does not look at tbb_stages.cpp, the one file
/// that includes oneTBB: the distribution's library is not instrumented, and half of it lives in
/// headers. What the stages do is looked at (handover.h).
void run_stages(PipelineStages& stages, unsigned threads, std::size_t tokens);

/// Calls `part` with 0 .. count - 1, from a stage, on its own thread and on those of the pipeline
/// that have nothing to do, and returns when all have ended. Rethrows the first exception. The
/// caller hands `context` over before, and each part takes it over as its first act (handover.h).
void run_parts(std::size_t count, void (*part)(void* context, std::size_t number), void* context);

/// CPUs that the affinity mask of this process leaves it, as oneTBB counts them.
unsigned process_concurrency();

}  // namespace hfshard
