// The run, as filters of one oneTBB pipeline:
//  1. admit (in plan order): the next tile takes its whole need from the arena. Only this filter
//     waits for memory.
//  2. apply (parallel): reads sources, moves them into the tile's region, and encodes chunks. For
//     compressed chunks, place follows (in plan order), since each begins at the end of the last
//     one.
//  3. store (parallel): writes the region and frees its memory.
//  4. commit (in plan order): group fdatasync of data, then one journal record, then fdatasync of
//     the journal.
// A failure closes the arena before it propagates. Otherwise a pipeline whose first filter waits
// for memory would never return. oneTBB then cancels the rest and rethrows one exception on the
// caller. It can be from the filter that was woken, so the first one is kept, and the caller sees
// that.

#include "run/engine/pipeline.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <utility>

#include "run/engine/cpus.h"
#include "run/engine/handover.h"
#include "run/engine/tbb_stages.h"
#include "run/engine/unpacked.h"

#include "hfshard/error.h"

namespace hfshard {

TileCursor::TileCursor(const Layout& layout, std::uint64_t begin, std::uint64_t end,
                       const JournalState* done, std::uint64_t most_need_bytes)
    : layout_(layout),
      at_(layout.unit_at(begin)),
      end_(end),
      done_(done),
      most_need_(most_need_bytes) {}

bool TileCursor::next(Tile& tile) {
  tile.units.clear();
  tile.digests.clear();
  tile.lengths.clear();
  tile.overflows = 0;
  tile.need_bytes = 0;
  std::uint64_t scratch = 0;
  std::vector<std::uint32_t> unpacked;  // arrays that all units read
  for (std::uint64_t address = layout_.address_of(at_); address < end_;
       at_ = layout_.next(at_), address = layout_.address_of(at_)) {
    const UnitForm& form = layout_.units()[layout_.group_of(at_).leaf];
    const std::uint64_t region = layout_.region_bytes(at_);
    if (done_ != nullptr && done_->covers(address, address + region)) {
      if (!tile.units.empty()) break;
      continue;
    }
    const std::uint32_t file = layout_.file_at(address);
    if (tile.units.empty()) {
      tile.file = file;
      tile.begin_address = address;
      unpacked = unpacked_by(layout_, at_);
    } else {
      const std::uint64_t merged = address + region - tile.begin_address;
      const std::uint64_t need = layout_.need_bytes(merged, std::max(scratch, form.scratch_bytes));
      if (file != tile.file || merged > layout_.limits().merge_bytes || need > most_need_) break;
      if (unpacked_by(layout_, at_) != unpacked) break;
    }
    tile.units.push_back(at_);
    tile.end_address = address + region;
    scratch = std::max(scratch, form.scratch_bytes);
  }
  if (tile.units.empty()) return false;
  tile.need_bytes = layout_.need_bytes(tile.region_bytes(), scratch);
  tile.offset_bytes = layout_.offset_in(tile.file, tile.begin_address);
  tile.lead_bytes = layout_.lead_bytes(tile.offset_bytes);
  tile.stored_bytes = tile.region_bytes();
  return true;
}

unsigned kernel_threads(const RunOptions& options) {
  return options.jobs > 0 ? options.jobs : usable_cpus();
}

unsigned pipeline_threads(const RunOptions& options) {
  return kernel_threads(options) + options.io_threads;
}

namespace {

// Tiles are reused, so there is at most one per pipeline token.
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

// The filters. `begun_` and `ended_` are for the caller's own hand-over, before the first stage
// runs and after the last. `*_turn_` is for the hand-over between calls of a serial filter, which
// oneTBB orders.
class TileStages final : public PipelineStages {
 public:
  TileStages(TileCursor& cursor, Arena& arena, const std::function<void(Tile&)>& admitted,
             const std::function<void(Tile&)>& apply, TileSink& sink,
             const PipelineOptions& options)
      : cursor_(cursor),
        arena_(arena),
        admitted_(admitted),
        apply_(apply),
        sink_(sink),
        options_(options) {}

  // Returns false if it was stopped.
  bool run() {
    const unsigned threads = options_.threads;
    hand_over(&begun_);
    try {
      run_stages(*this, threads, std::size_t{2} * threads + 4);
    } catch (...) {  // can be a wait that our failure ended
      take_over(&ended_);
      rethrow(std::current_exception());
    }
    take_over(&ended_);
    return !stopped_;
  }

  void* admit() override {
    Tile* tile = nullptr;
    guarded([&] {
      take_over(&admit_turn_);
      if (options_.stop != nullptr && options_.stop->load()) {
        stopped_ = true;
        return;
      }
      Tile* next = pool_.take();
      if (!cursor_.next(*next)) return;
      call_hook(Stage::admit, *next);
      admitted_(*next);
      next->block = arena_.take(next->need_bytes);
      tile = next;
      hand_over(tile);
      hand_over(&admit_turn_);
    });
    return tile;
  }

  void apply(void* item) override {
    auto* tile = static_cast<Tile*>(item);
    take_over(tile);
    guarded([&] {
      call_hook(Stage::apply, *tile);
      const StageSpan span(options_.meter, Busy::apply);
      apply_(*tile);
      tile->uses.clear();
      hand_over(tile);
    });
  }

  bool places() const override { return sink_.places(); }

  void place(void* item) override {
    auto* tile = static_cast<Tile*>(item);
    take_over(tile);
    guarded([&] {
      take_over(&place_turn_);
      call_hook(Stage::place, *tile);
      const StageSpan span(options_.meter, Busy::in_order);
      sink_.place(*tile);
      hand_over(tile);
      hand_over(&place_turn_);
    });
  }

  void store(void* item) override {
    auto* tile = static_cast<Tile*>(item);
    take_over(tile);
    guarded([&] {
      call_hook(Stage::store, *tile);
      const StageSpan span(options_.meter, Busy::store);
      sink_.store(*tile, tile->region().first(tile->stored_bytes));
      tile->block.release();
      hand_over(tile);
    });
  }

  void commit(void* item) override {
    auto* tile = static_cast<Tile*>(item);
    take_over(tile);
    guarded([&] {
      take_over(&commit_turn_);
      call_hook(Stage::commit, *tile);
      const StageSpan span(options_.meter, Busy::in_order);
      sink_.commit(*tile);
      pool_.give_back(tile);
      hand_over(&commit_turn_);
    });
  }

 private:
  void keep(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(error);
  }
  // Throws the failure for the caller. `thrown` is the one that oneTBB chose.
  [[noreturn]] void rethrow(const std::exception_ptr& thrown) {
    const std::lock_guard lock(mutex_);
    std::rethrow_exception(failure_ ? failure_ : thrown);
  }
  void call_hook(Stage stage, const Tile& tile) const {
    if (options_.hook) options_.hook(stage, tile);
  }
  // Runs one filter's work. The protocol above explains why it closes the arena first.
  template <typename Work>
  void guarded(const Work& work) {
    take_over(&begun_);
    try {
      work();
    } catch (...) {  // every failure must wake admit first
      keep(std::current_exception());
      arena_.close();
      hand_over(&ended_);
      throw;
    }
    hand_over(&ended_);
  }

  TileCursor& cursor_;
  Arena& arena_;
  const std::function<void(Tile&)>& admitted_;
  const std::function<void(Tile&)>& apply_;
  TileSink& sink_;
  const PipelineOptions& options_;
  TilePool pool_;
  bool stopped_ = false;  // written by admit, read after the pipeline
  std::mutex mutex_;
  std::exception_ptr failure_;  // the first one
  char begun_ = 0;
  char ended_ = 0;
  char admit_turn_ = 0;  // between calls of a serial filter
  char place_turn_ = 0;
  char commit_turn_ = 0;
};

}  // namespace

bool run_pipeline(TileCursor& cursor, Arena& arena, const std::function<void(Tile&)>& admitted,
                  const std::function<void(Tile&)>& apply, TileSink& sink,
                  const PipelineOptions& options) {
  return TileStages(cursor, arena, admitted, apply, sink, options).run();
}

}  // namespace hfshard
