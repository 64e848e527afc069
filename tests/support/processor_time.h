#pragma once

#include <ctime>
#include <functional>

namespace hfshard {

/// Returns the processor seconds that this thread spends in `work`, which don't depend on the
/// machine's load. Tests never compare wall-clock time with a bound.
inline double processor_seconds(const std::function<void()>& work) {
  const auto now = [] {
    std::timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double begin = now();
  work();
  return now() - begin;
}

}  // namespace hfshard
