#include "run/engine/tbb_stages.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <semaphore>
#include <type_traits>
#include <vector>

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>

#include "run/engine/crew.h"
#include "run/engine/grant.h"

namespace hfshard {

namespace {

// oneTBB has one limit for the threads of a process, and the smallest of several settings counts.
// All active runs share one setting, so no run takes threads from another.
class Threads {
 public:
  explicit Threads(unsigned threads) : threads_(threads) { change(threads_, 0); }
  ~Threads() { change(0, threads_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  static void change(std::size_t more, std::size_t less) {
    static std::mutex mutex;
    static std::size_t wanted = 0;
    static std::optional<tbb::global_control> bound;
    const std::lock_guard lock(mutex);
    wanted = wanted + more - less;
    bound.reset();
    if (wanted > 0) bound.emplace(tbb::global_control::max_allowed_parallelism, wanted);
  }

  const std::size_t threads_;
};

// A task group. oneTBB counts a task before it has memory for it. If the memory is refused, the
// group's destructor waits forever for the counted task. So that group is never destroyed.
class TaskGroup {
 public:
  template <typename Work>
  void run(const Work& work) {
    guarded([&] { group_->run(work); });
  }
  // Returns a task that keeps `wait` from returning.
  tbb::task_handle open() {
    return guarded([&] { return group_->defer([] {}); });
  }
  void wait() { group_->wait(); }

 private:
  template <typename Work>
  std::invoke_result_t<const Work&> guarded(const Work& work) {
    try {
      return work();
    } catch (...) {  // see above
      static_cast<void>(group_.release());
      throw;
    }
  }

  std::unique_ptr<tbb::task_group> group_ = std::make_unique<tbb::task_group>();
};

// Lets threads of a crew work in an arena until the last filter has ended. Each waits for its own
// task, which never runs, and takes others meanwhile.
class Places {
 public:
  Places(tbb::task_arena& arena, unsigned threads) : arena_(arena) {
    for (unsigned i = 0; i < threads; ++i) all_.push_back(std::make_unique<Place>());
  }
  void work(unsigned number) {
    try {
      arena_.execute([&] { all_[number]->group.wait(); });
    } catch (...) {  // filters report elsewhere; this means no heap
      starved_.store(true);
    }
  }
  // Returns whether any of them takes a task of the caller, who is in the arena. If a program used
  // oneTBB before, with larger stacks, it accepts none of these threads: they are too near their
  // ends.
  bool any_takes_part() const {
    if (all_.empty()) return true;
    std::binary_semaphore taken(0);
    TaskGroup trial;
    trial.run([&] { taken.release(); });
    // The next runs of the process probably find the same.
    static std::atomic<bool> was_taken = true;
    const bool is_taken = taken.try_acquire_for(was_taken.load() ? std::chrono::milliseconds(1000)
                                                                 : std::chrono::milliseconds(20));
    was_taken.store(is_taken);
    trial.wait();
    if (!is_taken && starved_.load()) throw std::bad_alloc();
    return is_taken;
  }
  void close() {
    for (const auto& place : all_) place->open = {};
  }

 private:
  struct Place {
    TaskGroup group;
    tbb::task_handle open = group.open();
  };

  tbb::task_arena& arena_;
  std::atomic<bool> starved_ = false;
  std::vector<std::unique_ptr<Place>> all_;
};

void run_filters(PipelineStages& stages, std::size_t tokens) {
  const auto admit = [&](tbb::flow_control& control) {
    void* item = stages.admit();
    if (item == nullptr) control.stop();
    return item;
  };
  const auto apply = [&](void* item) {
    stages.apply(item);
    return item;
  };
  const auto place = [&](void* item) {
    stages.place(item);
    return item;
  };
  const auto store = [&](void* item) {
    stages.store(item);
    return item;
  };
  const auto commit = [&](void* item) { stages.commit(item); };
  using Mode = tbb::filter_mode;
  auto work = tbb::make_filter<void, void*>(Mode::serial_in_order, admit) &
              tbb::make_filter<void*, void*>(Mode::parallel, apply);
  if (stages.places()) work &= tbb::make_filter<void*, void*>(Mode::serial_in_order, place);
  tbb::parallel_pipeline(tokens, work & tbb::make_filter<void*, void*>(Mode::parallel, store) &
                                     tbb::make_filter<void*, void>(Mode::serial_in_order, commit));
}

}  // namespace

void run_stages(PipelineStages& stages, unsigned threads, std::size_t tokens) {
  require_start();
  const tbb::global_control stacks(tbb::global_control::thread_stack_size, kStartedStackBytes);
  // All slots have threads, since oneTBB ends the process if it can't make one.
  tbb::task_arena workers(static_cast<int>(threads), threads);
  Places places(workers, threads - 1);
  Crew crew(threads - 1);
  const auto close = [](Places* all) { all->close(); };
  const std::unique_ptr<Places, decltype(close)> open(&places, close);  // before the crew ends
  crew.start([&](unsigned number) { places.work(number); });
  const bool done = workers.execute([&] {
    if (!places.any_takes_part()) return false;
    run_filters(stages, tokens);
    return true;
  });
  if (done) return;
  const Threads own(threads);
  tbb::task_arena others(static_cast<int>(threads));
  others.execute([&] { run_filters(stages, tokens); });
}

void run_parts(std::size_t count, void (*part)(void* context, std::size_t number), void* context) {
  // Isolated: a waiting thread must not take another stage's work, which could need what this stage
  // holds.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(
        tbb::blocked_range<std::size_t>(0, count, 1),
        [&](const tbb::blocked_range<std::size_t>& range) {
          for (std::size_t i = range.begin(); i < range.end(); ++i) part(context, i);
        },
        tbb::simple_partitioner());
  });
}

unsigned process_concurrency() { return static_cast<unsigned>(tbb::info::default_concurrency()); }

}  // namespace hfshard
