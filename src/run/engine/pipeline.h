#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "catalog/format.h"
#include "plan/layout/layout.h"
#include "run/engine/record.h"
#include "run/engine/stage_meter.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Consecutive units of one data file. They have at most Limits::merge_bytes of output, unless one
/// unit is larger.
struct Tile {
  std::vector<UnitRef> units;
  std::uint32_t file = 0;
  std::uint64_t begin_address = 0;
  std::uint64_t end_address = 0;
  std::uint64_t need_bytes = 0;  ///< region and scratch
  std::uint64_t lead_bytes = 0;  ///< of its block, before the region
  Arena::Block block;
  std::vector<std::shared_ptr<const void>> uses;  ///< needed until it is applied
  std::vector<SlotDigest> digests;
  std::uint64_t overflows = 0;         ///< finite values that became infinite
  std::vector<std::uint32_t> lengths;  ///< of compressed chunks
  std::uint64_t offset_bytes = 0;      ///< in its file; place may set it
  std::uint64_t stored_bytes = 0;      ///< of the region, to be written
  std::uint64_t region_bytes() const noexcept { return end_address - begin_address; }
  /// Returns the units' bytes, in a row.
  std::span<std::byte> region() const { return block.bytes().subspan(lead_bytes, region_bytes()); }
  /// Returns the memory that its units use in turn.
  std::span<std::byte> scratch() const {
    return block.bytes().subspan(Layout::scratch_begin(lead_bytes + region_bytes()));
  }
};

/// Walks the tiles of [begin, end) of the plan's address space in order, without those that `done`
/// covers.
class TileCursor {
 public:
  /// Merges units only while a tile's need is at most `most_need_bytes`.
  TileCursor(const Layout& layout, std::uint64_t begin, std::uint64_t end, const JournalState* done,
             std::uint64_t most_need_bytes);
  /// Fills `tile` with the next one. Returns false at the end.
  bool next(Tile& tile);

 private:
  const Layout& layout_;
  UnitRef at_;
  std::uint64_t end_;
  const JournalState* done_;
  std::uint64_t most_need_;
};

/// The places of a test's hook in the pipeline. A test throws from each while admit waits.
enum class Stage : std::uint8_t { admit, apply, place, store, commit };

/// Receives finished tiles.
class TileSink {
 public:
  virtual ~TileSink() = default;
  /// Returns whether a tile's place depends on earlier tiles. Then `place` is called between apply
  /// and store, in plan order by one thread at a time.
  virtual bool places() const { return false; }
  virtual void place(Tile& /*tile*/) {}
  /// Called concurrently, in any order.
  virtual void store(const Tile& tile, std::span<const std::byte> region) = 0;
  /// Called in plan order by one thread at a time.
  virtual void commit(Tile& tile) = 0;
};

struct PipelineOptions {
  unsigned threads = 1;
  const std::atomic<bool>* stop = nullptr;
  std::function<void(Stage, const Tile&)> hook;  ///< for tests
  StageMeter* meter = nullptr;
};

/// Moves every tile of the cursor: admit, apply, store, commit (design.md 7). `apply` does a tile's
/// work in parallel. Returns false if `stop` stopped it; then all admitted tiles are committed.
/// Throws: the first failure of any stage, after all running stages have ended.
bool run_pipeline(TileCursor& cursor, Arena& arena, const std::function<void(Tile&)>& admitted,
                  const std::function<void(Tile&)>& apply, TileSink& sink,
                  const PipelineOptions& options);

/// Returns the threads for kernels: --jobs, or one for each CPU that this process may use (cpus.h).
unsigned kernel_threads(const RunOptions& options);
/// Returns the threads that a run uses: those, and more for blocking reads and writes. Call it once
/// per run, since the answer can change.
unsigned pipeline_threads(const RunOptions& options);

}  // namespace hfshard
