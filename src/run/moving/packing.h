#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "run/moving/record.h"

namespace hfshard {

// Compressed chunks lie one behind the other in each data file, in plan order, every one at a
// multiple of Limits::alignment_bytes. How long they are is known when they are encoded; journal
// records keep it for resumed runs, for workers and for the index.

/// Bytes of data files that are done.
std::uint64_t stored_bytes(const Layout& layout, const JournalState& done);

/// Says where the chunks of a tile go, tile after tile in plan order.
class Packing {
 public:
  /// `done`: what other runs of the plan have written.
  Packing(const Layout& layout, const JournalState& done);
  /// Offset, in its data file, of the unit at `address`, whose chunks and those behind it have
  /// `lengths`. Everything before it in the file was placed or done. One call at a time.
  std::uint64_t place(std::uint64_t address, std::span<const std::uint32_t> lengths);

 private:
  const Layout& layout_;
  std::vector<std::uint32_t> lengths_;  // by chunk, in plan order; 0 where not known yet
  std::uint64_t next_ = 0;              // the chunk that comes after what was walked
  std::uint64_t offset_ = 0;            // where that one goes
};

/// Where the chunks of a plan are, all of which are done.
class PackedPlacements final : public Placements {
 public:
  PackedPlacements(const Plan& plan, const JournalState& done);
  std::string file_path(std::uint32_t file) const override { return plan_.file_path(file); }
  std::uint32_t file_count() const override { return plan_.file_count(); }
  Place place(std::uint32_t leaf, const Shape& chunk) const override;
  /// Of all data files.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  const Plan& plan_;
  std::vector<std::uint32_t> lengths_;      // by chunk, in plan order
  std::vector<std::uint64_t> offsets_;      // in its file
  std::vector<std::uint64_t> first_chunk_;  // of each file
  std::uint64_t total_bytes_ = 0;
};

/// Heap that placing the chunks of a plan takes, for the budget.
std::uint64_t packing_heap_bytes(const Layout& layout) noexcept;

}  // namespace hfshard
