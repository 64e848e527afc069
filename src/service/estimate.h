#pragma once

#include <string>

#include "catalog/format.h"
#include "plan/plan.h"

#include "hfshard/convert.h"
#include "hfshard/report.h"

namespace hfshard {

/// Estimates how long a run of the plan takes. It reads the source, writes to the output's disk and
/// converts bytes for a few milliseconds each. Stages overlap, so the slowest one counts; a single
/// disk alternates between reads and writes. Throws: io (an access fails), unsupported (too little
/// data).
TimeEstimate estimate_time(const Plan& plan, const Format& target, const RunOptions& run,
                           unsigned kernels);

}  // namespace hfshard
