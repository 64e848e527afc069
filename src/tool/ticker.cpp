#include "tool/ticker.h"

#include <csignal>
#include <cstddef>
#include <new>
#include <utility>

namespace hfshard {
namespace {

// The stack counts within the process's memory budget; std::thread can't ask for less than 8 MiB.
constexpr std::size_t kStackBytes = std::size_t{256} << 10;

}  // namespace

Ticker::Ticker(std::chrono::milliseconds interval, std::function<void()> tick)
    : interval_(interval), tick_(std::move(tick)) {
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return;
  // Signals must go to the threads whose calls they interrupt.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  runs_ = ::pthread_attr_setstacksize(&attributes, kStackBytes) == 0 &&
          ::pthread_create(&thread_, &attributes, &Ticker::run, this) == 0;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ::pthread_attr_destroy(&attributes);
}

void Ticker::stop() {
  if (!runs_) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  ::pthread_join(thread_, nullptr);
  runs_ = false;
}

void* Ticker::run(void* self) {
  static_cast<Ticker*>(self)->loop();
  return nullptr;
}

void Ticker::loop() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, interval_, [this] { return ends_; })) {
    lock.unlock();
    try {
      tick_();
    } catch (const std::bad_alloc&) {  // the run reports the error; a missing line is harmless
    }
    lock.lock();
  }
}

}  // namespace hfshard
