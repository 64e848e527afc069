#include "run/moving/tbb_stages.h"

#include <mutex>
#include <optional>

#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/partitioner.h>
#include <tbb/task_arena.h>

namespace hfshard {

namespace {

// oneTBB has one bound for the threads of a process, and of several settings the smallest holds. So
// that no run takes threads from another, there is one setting, for all runs that are on.
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

}  // namespace

void run_stages(PipelineStages& stages, unsigned threads, std::size_t tokens) {
  const Threads ours(threads);
  const tbb::global_control stacks(tbb::global_control::thread_stack_size, kThreadStackBytes);
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
  tbb::task_arena workers(static_cast<int>(threads));
  workers.execute([&] {
    auto work = tbb::make_filter<void, void*>(Mode::serial_in_order, admit) &
                tbb::make_filter<void*, void*>(Mode::parallel, apply);
    if (stages.places()) work &= tbb::make_filter<void*, void*>(Mode::serial_in_order, place);
    tbb::parallel_pipeline(tokens,
                           work & tbb::make_filter<void*, void*>(Mode::parallel, store) &
                               tbb::make_filter<void*, void>(Mode::serial_in_order, commit));
  });
}

void run_parts(std::size_t count, void (*part)(void* context, std::size_t number), void* context) {
  // Isolated: who waits here takes no other stage's work, which could want what this stage holds.
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
