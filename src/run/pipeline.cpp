// The run, as four filters of one oneTBB pipeline:
//  1. admit (in plan order): the next tile takes its whole need from the arena. The only place that
//  waits for memory.
//  2. apply (parallel): sources are read and moved into the tile's region; chunks are encoded.
//  3. store (parallel): the region is written; its memory goes back.
//  4. commit (in plan order): group fdatasync of data, then one journal record, then fdatasync of
//  the journal.
// A failure anywhere closes the arena before it propagates: a pipeline whose first filter waits for
// memory that nobody will give back would never return. oneTBB then cancels the rest and rethrows
// one exception on the caller; that may be the one of the filter that was woken, so the first one
// is kept aside and is what the caller sees.

#include "run/pipeline.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <tbb/global_control.h>
#include <tbb/parallel_pipeline.h>
#include <tbb/task_arena.h>

#include "run/handover.h"

#include "hfshard/error.h"

namespace hfshard {

TileCursor::TileCursor(const Plan& plan, std::uint64_t begin, std::uint64_t end,
                       const JournalState* done, std::uint64_t most_need_bytes)
    : plan_(plan), at_(plan.unit_at(begin)), end_(end), done_(done), most_need_(most_need_bytes) {}

bool TileCursor::next(Tile& tile) {
  tile.units.clear();
  tile.digests.clear();
  tile.need_bytes = 0;
  std::uint64_t scratch = 0;
  for (std::uint64_t address = plan_.address_of(at_); address < end_;
       at_ = plan_.next(at_), address = plan_.address_of(at_)) {
    const UnitForm& form = plan_.units[plan_.group_of(at_).leaf];
    const std::uint64_t region = form.region_bytes();
    if (done_ != nullptr && done_->covers(address, address + region)) {
      if (!tile.units.empty()) break;
      continue;
    }
    const auto after = std::ranges::upper_bound(plan_.file_begin, address);
    const auto file = static_cast<std::uint32_t>(after - plan_.file_begin.begin() - 1);
    if (tile.units.empty()) {
      tile.file = file;
      tile.begin_address = address;
    } else {
      const std::uint64_t merged = address + region - tile.begin_address;
      const std::uint64_t need = merged + std::max(scratch, form.scratch_bytes);
      if (file != tile.file || merged > plan_.limits.merge_bytes || need > most_need_) break;
    }
    tile.units.push_back(at_);
    tile.end_address = address + region;
    scratch = std::max(scratch, form.scratch_bytes);
  }
  if (tile.units.empty()) return false;
  tile.need_bytes = tile.region_bytes() + scratch;
  return true;
}

unsigned pipeline_threads(unsigned jobs) noexcept {
  const unsigned kernels = jobs > 0 ? jobs : std::max(1U, std::thread::hardware_concurrency());
  return kernels + 2;
}

namespace {

// Tiles are reused: at most one per pipeline token exists.
class TilePool {
 public:
  Tile* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      all_.push_back(std::make_unique<Tile>());
      return all_.back().get();
    }
    Tile* tile = free_.back();
    free_.pop_back();
    return tile;
  }
  void give_back(Tile* tile) {
    const std::lock_guard lock(mutex_);
    free_.push_back(tile);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Tile>> all_;
  std::vector<Tile*> free_;
};

// What all filters share.
struct Shared {
  TileCursor& cursor;
  Arena& arena;
  const std::function<void(Tile&)>& admitted;
  const std::function<void(Tile&)>& apply;
  TileSink& sink;
  const PipelineOptions& options;
  TilePool pool;
  bool stopped = false;  // written by admit, read after the pipeline
  std::mutex mutex;
  std::exception_ptr failure;  // the first one

  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::move(error);
  }
  // The failure that the caller is to see; `thrown` is what oneTBB chose.
  [[noreturn]] void rethrow(const std::exception_ptr& thrown) {
    const std::lock_guard lock(mutex);
    std::rethrow_exception(failure ? failure : thrown);
  }

  void call_hook(Stage stage, const Tile& tile) const {
    if (options.hook) options.hook(stage, tile);
  }
  // Runs one filter's work; see the protocol above for why the arena is closed first.
  template <typename Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (...) {  // every failure must wake admit before it travels on
      keep(std::current_exception());
      arena.close();
      throw;
    }
  }
};

Tile* admit(Shared& shared, tbb::flow_control& control) {
  Tile* tile = nullptr;
  shared.guarded([&] {
    if (shared.options.stop != nullptr && shared.options.stop->load()) {
      shared.stopped = true;
      return;
    }
    Tile* next = shared.pool.take();
    if (!shared.cursor.next(*next)) return;
    shared.call_hook(Stage::admit, *next);
    shared.admitted(*next);
    next->block = shared.arena.take(next->need_bytes);
    hand_over(next);
    tile = next;
  });
  if (tile == nullptr) control.stop();
  return tile;
}

Tile* apply(Shared& shared, Tile* tile) {
  take_over(tile);
  shared.guarded([&] {
    shared.call_hook(Stage::apply, *tile);
    shared.apply(*tile);
  });
  hand_over(tile);
  return tile;
}

Tile* store(Shared& shared, Tile* tile) {
  take_over(tile);
  shared.guarded([&] {
    shared.call_hook(Stage::store, *tile);
    shared.sink.store(*tile, tile->block.bytes().first(tile->region_bytes()));
    tile->block.release();
  });
  hand_over(tile);
  return tile;
}

void commit(Shared& shared, Tile* tile) {
  take_over(tile);
  shared.guarded([&] {
    shared.call_hook(Stage::commit, *tile);
    shared.sink.commit(*tile);
    shared.pool.give_back(tile);
  });
}

}  // namespace

bool run_pipeline(TileCursor& cursor, Arena& arena, const std::function<void(Tile&)>& admitted,
                  const std::function<void(Tile&)>& apply_tile, TileSink& sink,
                  const PipelineOptions& options) {
  constexpr std::size_t kThreadStackBytes = std::size_t{512} << 10;
  Shared shared{cursor, arena, admitted, apply_tile, sink, options, {}, false, {}, {}};
  const unsigned threads = pipeline_threads(options.jobs);
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism, threads);
  const tbb::global_control stacks(tbb::global_control::thread_stack_size, kThreadStackBytes);
  tbb::task_arena workers(static_cast<int>(threads));
  try {
    workers.execute([&] {
      using Mode = tbb::filter_mode;
      tbb::parallel_pipeline(
          std::size_t{2} * threads + 4,
          tbb::make_filter<void, Tile*>(Mode::serial_in_order, [&](tbb::flow_control& fc) {
            return admit(shared, fc);
          }) & tbb::make_filter<Tile*, Tile*>(Mode::parallel, [&](Tile* tile) {
            return apply(shared, tile);
          }) & tbb::make_filter<Tile*, Tile*>(Mode::parallel, [&](Tile* tile) {
            return store(shared, tile);
          }) & tbb::make_filter<Tile*, void>(Mode::serial_in_order, [&](Tile* tile) {
            commit(shared, tile);
          }));
    });
  } catch (...) {  // replaced by the first failure
    shared.rethrow(std::current_exception());
  }
  return !shared.stopped;
}

}  // namespace hfshard
