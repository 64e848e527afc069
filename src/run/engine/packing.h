#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "run/engine/record.h"

namespace hfshard {

// Compressed chunks follow each other in each data file, in plan order. Each begins at a multiple
// of Limits::alignment_bytes. Encoding determines their lengths. Journal records keep them for
// resumed runs, for workers and for the index.

/// Returns the bytes of data files that are done.
std::uint64_t stored_bytes(const Layout& layout, const JournalState& done);

/// Places the chunks of tiles, in plan order.
class Packing {
 public:
  /// `done` is the work of other runs of the plan.
  Packing(const Layout& layout, const JournalState& done);
  /// Returns the offset, in its data file, of the unit at `address`. Its chunks and the next ones
  /// have `lengths`. Everything before it in the file must be placed or done. One call at a time.
  std::uint64_t place(std::uint64_t address, std::span<const std::uint32_t> lengths);

 private:
  const Layout& layout_;
  std::vector<std::uint32_t> lengths_;  // by chunk in plan order; 0: unknown
  std::uint64_t next_ = 0;              // the next chunk
  std::uint64_t offset_ = 0;            // its offset
};

/// The places of a plan's chunks, all of which are done.
class PackedPlacements final : public Placements {
 public:
  PackedPlacements(const Plan& plan, const JournalState& done);
  std::string file_path(std::uint32_t file) const override { return plan_.file_path(file); }
  std::uint32_t file_count() const override { return plan_.file_count(); }
  Place place(std::uint32_t leaf, const Shape& chunk) const override;
  /// Returns the bytes of all data files.
  std::uint64_t total_bytes() const noexcept { return total_bytes_; }

 private:
  const Plan& plan_;
  std::vector<std::uint32_t> lengths_;      // by chunk, in plan order
  std::vector<std::uint64_t> offsets_;      // in its file
  std::vector<std::uint64_t> first_chunk_;  // of each file
  std::uint64_t total_bytes_ = 0;
};

/// Returns the heap bytes for placing the chunks of a plan, for the budget.
std::uint64_t packing_heap_bytes(const Layout& layout) noexcept;

}  // namespace hfshard
