#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "bytes/local/read_ahead.h"
#include "ops/transfer.h"
#include "plan/layout/layout.h"
#include "run/engine/record.h"
#include "run/engine/stored_band.h"

namespace hfshard {

/// Feeds a run's reads of remote files, in the order of its units: exactly the ranges that
/// UnitFiller requests. Holds those of one unit.
class PlanFeed final : public RangeFeed {
 public:
  /// Covers the units of [begin, end) of the address space, except those in `done` (can be null).
  PlanFeed(const Layout& layout, std::uint64_t begin, std::uint64_t end, const JournalState* done);
  bool next(FileRange& next) override;

 private:
  void add_unit(const UnitRef& ref);
  void add_scales(const Decode& decode, std::uint64_t source, const StoredBand& band);

  const Layout& layout_;
  std::vector<bool> far_;  // by file
  UnitRef at_;
  std::uint64_t end_;
  const JournalState* done_;
  std::deque<FileRange> ranges_;
};

}  // namespace hfshard
