#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "bytes/local/arrivals.h"
#include "bytes/local/read_ahead.h"
#include "plan/plan.h"
#include "run/engine/budget.h"
#include "run/engine/plan_feed.h"
#include "run/engine/record.h"
#include "run/engine/sources.h"

#include "hfshard/convert.h"

namespace hfshard {

/// The reads of a run. Reads ahead of need from remote sources.
class FarReads {
 public:
  /// Covers the units of `share`, except those in `done` (can be null). The arguments must outlive
  /// this.
  FarReads(const Plan& plan, const OpenSources& sources, const ByteRange& share,
           const JournalState* done, const Budget& budget);
  SourceReads reads() const { return {sources_, ahead_ ? &*ahead_ : nullptr}; }
  /// Returns the network traffic, once the run has ended.
  std::optional<NetworkUse> network_use();

 private:
  const Plan& plan_;
  const OpenSources& sources_;
  PlanFeed feed_;
  mutable std::optional<ReadAhead> ahead_;
};

/// Keeps what comes over the network, and isn't in a record of the journal soon, in the directory
/// `staging`. There it needs a part of the `spare_bytes` of the disk. Null for a plan without a
/// remote source, or without space. Throws: io.
std::shared_ptr<Arrivals> keep_arrivals(const Plan& plan, OpenSources& sources,
                                        const std::string& staging, const RunOptions& options,
                                        std::uint64_t spare_bytes);
/// Returns the bytes that such runs have kept. Throws: io.
std::uint64_t arrived_bytes(const std::string& staging, const RunOptions& options);

/// Returns a function that tells the bytes that came over the network so far. Empty for a plan
/// without a remote source.
std::function<std::uint64_t()> link_bytes(const Plan& plan);

}  // namespace hfshard
