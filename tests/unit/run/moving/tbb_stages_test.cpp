#include "run/moving/tbb_stages.h"

#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include "run/moving/handover.h"

namespace hfshard {
namespace {

constexpr auto kLongest = std::chrono::seconds(20);

// Items whose `apply` waits until so many are in it at once, or until it is let go.
class Crowd final : public PipelineStages {
 public:
  Crowd(int items, int wanted) : left_(items), wanted_(wanted) { hand_over(this); }
  ~Crowd() override { take_over(this); }  // oneTBB has waited for all who used it
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

std::size_t allowed() {
  return tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
}

TEST(RunStages, ARunHasItsThreadsWhateverRunsBesideIt) {
  const std::size_t before = allowed();
  Crowd alone(1, 2);  // two are never there: it stays until it is let go
  auto other = std::async(std::launch::async, [&] { run_stages(alone, 1, 8); });
  ASSERT_TRUE(alone.wait_for(1));
  Crowd many(6, 6);
  auto one = std::async(std::launch::async, [&] { run_stages(many, 6, 8); });
  EXPECT_TRUE(many.wait_for(6));
  one.get();
  EXPECT_EQ(allowed(), 1U);
  alone.let_go();
  other.get();
  EXPECT_EQ(allowed(), before);
}

TEST(RunStages, TheEndOfARunLeavesTheOthersTheirs) {
  Crowd many(7, 7);
  auto one = std::async(std::launch::async, [&] { run_stages(many, 6, 8); });
  ASSERT_TRUE(many.wait_for(6));
  Crowd few(2, 2);
  run_stages(few, 2, 4);
  EXPECT_EQ(allowed(), 6U);
  many.let_go();
  one.get();
}

}  // namespace
}  // namespace hfshard
