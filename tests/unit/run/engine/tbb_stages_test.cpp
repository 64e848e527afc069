#include "run/engine/tbb_stages.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <mutex>

#include <gtest/gtest.h>
#include <tbb/parallel_for.h>

#include "bytes/local/files.h"
#include "run/engine/grant.h"
#include "run/engine/handover.h"

namespace hfshard {
namespace {

constexpr auto kLongest = std::chrono::minutes(4);  // only a hang takes so long

// Items whose `apply` waits until `wanted` are in it at once, or until it is released.
class Crowd final : public PipelineStages {
 public:
  Crowd(int items, int wanted) : left_(items), wanted_(wanted) { hand_over(this); }
  ~Crowd() override { take_over(this); }  // oneTBB waited for all users
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  void* admit() override {
    take_over(this);
    void* item = left_-- > 0 ? this : nullptr;
    hand_over(this);
    return item;
  }
  void apply(void* /*item*/) override {
    take_over(this);
    std::unique_lock lock(mutex_);
    ++inside_;
    changed_.notify_all();
    changed_.wait_for(lock, kLongest, [&] { return inside_ >= wanted_ || free_; });
    lock.unlock();
    hand_over(this);
  }
  bool places() const override { return false; }
  void place(void* /*item*/) override {}
  void store(void* /*item*/) override {}
  void commit(void* /*item*/) override {}

  bool wait_for(int inside) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kLongest, [&] { return inside_ >= inside; });
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }

 private:
  int left_;
  const int wanted_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int inside_ = 0;
  bool free_ = false;
};

TEST(RunStages, ARunHasItsThreadsWhateverRunsBesideIt) {
  Crowd alone(1, 2);  // waits for a second item until released
  auto other = std::async(std::launch::async, [&] { run_stages(alone, 1, 8); });
  ASSERT_TRUE(alone.wait_for(1));
  Crowd many(6, 6);
  auto one = std::async(std::launch::async, [&] { run_stages(many, 6, 8); });
  EXPECT_TRUE(many.wait_for(6));
  one.get();
  alone.let_go();
  other.get();
}

TEST(RunStages, TheEndOfARunLeavesTheOthersTheirs) {
  Crowd many(7, 7);
  auto one = std::async(std::launch::async, [&] { run_stages(many, 6, 8); });
  ASSERT_TRUE(many.wait_for(6));
  Crowd few(2, 2);
  run_stages(few, 2, 4);
  many.let_go();
  one.get();
}

// A run has the threads that a trial got, without asking again. The process is its own, since other
// tests leave some of oneTBB's.
TEST(RunStages, TheThreadsOfTheTrialAreKept) {
  const auto are_kept = [] {
    const auto threads = [] { return list_directory("/proc/self/task").size(); };
    require_grant(0, 16);
    const std::size_t kept = threads();
    EXPECT_GE(kept, 16U);
    for (int round = 0; round < 3; ++round) {
      Crowd many(16, 16);
      auto run = std::async(std::launch::async, [&] { run_stages(many, 16, 20); });
      EXPECT_TRUE(many.wait_for(16));
      EXPECT_EQ(threads(), kept + 1);  // this one's
      run.get();
    }
    EXPECT_EQ(threads(), kept);
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(are_kept(), testing::ExitedWithCode(0), "");
}

// The thread sanitizer sees no synchronization in oneTBB, which isn't built for it. A task that one
// thread splits off and another takes looks like a race.
#ifndef __SANITIZE_THREAD__
// Its threads have large stacks, so it then lets no others steal.
TEST(RunStages, AProgramMayHaveUsedOneTbbBefore) {
  const auto used = [] {
    tbb::parallel_for(0, 8, [](int /*number*/) {});
    Crowd many(3, 3);
    auto run = std::async(std::launch::async, [&] { run_stages(many, 3, 8); });
    std::_Exit(many.wait_for(3) ? 0 : 1);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // in its own process
  EXPECT_EXIT(used(), testing::ExitedWithCode(0), "");
}
#endif

}  // namespace
}  // namespace hfshard
