#pragma once

#include <cstddef>

namespace hfshard {

/// The filters of a run as plain calls. An item is a pointer that travels through them.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;
  /// Returns the next item, in order. Null ends the pipeline. One call at a time.
  virtual void* admit() = 0;
  /// Called concurrently.
  virtual void apply(void* item) = 0;
  /// Returns whether a filter `place` follows `apply`. It is called in the order of admission, one
  /// call at a time.
  virtual bool places() const = 0;
  virtual void place(void* item) = 0;
  /// Called concurrently.
  virtual void store(void* item) = 0;
  /// Called in the order of admission, one call at a time.
  virtual void commit(void* item) = 0;
};

/// Runs the stages with oneTBB on the caller's thread and a crew's (crew.h), `threads` together,
/// with at most `tokens` items at a time. Returns when all have ended. Several calls can run at
/// once. Rethrows the first exception of any stage. Throws: io (a thread is refused), limit (no
/// memory for oneTBB). The thread sanitizer skips tbb_stages.cpp, the only file that includes
/// oneTBB. The distribution's library isn't instrumented, and half of it is in headers. The
/// sanitizer checks the stages (handover.h).
void run_stages(PipelineStages& stages, unsigned threads, std::size_t tokens);

/// Calls `part` with 0 .. count - 1 from a stage, on its own thread and on idle threads of the
/// pipeline. Returns when all have ended. Rethrows the first exception. The caller hands `context`
/// over before, and each part takes it over as its first action (handover.h).
void run_parts(std::size_t count, void (*part)(void* context, std::size_t number), void* context);

/// Returns the CPUs in the affinity mask of this process, as oneTBB counts them.
unsigned process_concurrency();

}  // namespace hfshard
