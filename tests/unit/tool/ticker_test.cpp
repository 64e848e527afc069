#include "tool/ticker.h"

#include <atomic>
#include <csignal>
#include <latch>
#include <new>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

constexpr std::chrono::milliseconds kSoon{1};

TEST(Ticker, CallsUntilItIsStopped) {
  std::atomic<int> calls{0};
  std::latch three(3);
  Ticker ticker(kSoon, [&] {
    if (++calls <= 3) three.count_down();
  });
  three.wait();
  ticker.stop();
  const int before = calls;
  std::this_thread::sleep_for(20 * kSoon);
  EXPECT_EQ(calls, before);
  ticker.stop();
}

TEST(Ticker, IsStoppedAtOnceHoweverLongItsIntervalIs) {
  bool called = false;
  {
    Ticker ticker(std::chrono::hours(1), [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

TEST(Ticker, LeavesSignalsToTheThreadsThatWork) {
  std::latch seen(1);
  sigset_t mask;
  ::sigemptyset(&mask);
  Ticker ticker(kSoon, [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    seen.count_down();
  });
  seen.wait();
  EXPECT_EQ(::sigismember(&mask, SIGINT), 1);
  sigset_t ours;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &ours);
  EXPECT_EQ(::sigismember(&ours, SIGINT), 0);
}

TEST(Ticker, GoesOnAfterACallThatFoundNoMemory) {
  std::latch twice(2);
  std::atomic<int> calls{0};
  Ticker ticker(kSoon, [&] {
    if (++calls <= 2) twice.count_down();
    throw std::bad_alloc();
  });
  twice.wait();
}

}  // namespace
}  // namespace hfshard
