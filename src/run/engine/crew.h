#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace hfshard {

/// Stack of every thread except the caller's, as a budget counts it.
inline constexpr std::size_t kThreadStackBytes = std::size_t{512} << 10;

/// Stack at the start of a thread. The thread sanitizer uses a megabyte of each stack, and oneTBB
/// gives no work to a thread near the end of its stack.
#ifdef __SANITIZE_THREAD__
inline constexpr std::size_t kStartedStackBytes = std::size_t{4} << 20;
#else
inline constexpr std::size_t kStartedStackBytes = kThreadStackBytes;
#endif

/// The threads of a run. They are started once and kept: when a crew ends, its threads wait for the
/// process's next crew. So no other program takes the threads that a trial was granted.
class Crew {
 public:
  /// Gets all threads, each with some heap. Throws: io (the system refuses one, with its number),
  /// std::bad_alloc.
  explicit Crew(unsigned threads);
  /// Waits until all have finished their work.
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  /// Calls `work` with 0 .. threads - 1, each on its own thread, and returns at once. Call it once;
  /// `work` must not throw.
  void start(std::function<void(unsigned)> work);

  class Member;

 private:
  void let_go() noexcept;

  std::vector<Member*> members_;
  std::function<void(unsigned)> work_;
};

}  // namespace hfshard
