#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <pthread.h>

namespace hfshard {

/// Calls a function at intervals from its own thread, which has a small stack and takes no signals.
/// If the system refuses the thread, the function is never called.
class Ticker {
 public:
  Ticker(std::chrono::milliseconds interval, std::function<void()> tick);
  ~Ticker() { stop(); }
  Ticker(const Ticker&) = delete;
  Ticker& operator=(const Ticker&) = delete;
  /// Waits for a call in progress; no call follows. The function itself must not call this.
  void stop();

 private:
  static void* run(void* self);
  void loop();

  const std::chrono::milliseconds interval_;
  const std::function<void()> tick_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  bool runs_ = false;
  pthread_t thread_{};
};

}  // namespace hfshard
