#pragma once

#include <deque>

#include "bytes/read_ahead.h"
#include "plan/layout/layout.h"
#include "run/moving/record.h"

namespace hfshard {

/// The reads of a run, in the order of its units, of files that are far: exactly the ranges that
/// UnitFiller asks for. Holds those of one unit.
class PlanFeed final : public RangeFeed {
 public:
  /// Of the units of [begin, end) of the address space but for what `done` (may be null) covers.
  PlanFeed(const Layout& layout, std::uint64_t begin, std::uint64_t end, const JournalState* done);
  bool next(FileRange& next) override;

 private:
  void add_unit(const UnitRef& ref);

  const Layout& layout_;
  std::vector<bool> far_;  // by file
  UnitRef at_;
  std::uint64_t end_;
  const JournalState* done_;
  std::deque<FileRange> ranges_;
};

}  // namespace hfshard
