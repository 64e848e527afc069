#pragma once

#include <string>

#include "catalog/format.h"
#include "plan/plan.h"

#include "hfshard/convert.h"
#include "hfshard/report.h"

namespace hfshard {

/// How long a run of the plan may take: a few milliseconds of reading the source, writing where the
/// output would go, and converting what was read. Stages overlap, so the slowest one counts; one
/// disk reads and writes by turns. Throws: io (what cannot be tried), unsupported (too little data
/// to measure by).
TimeEstimate estimate_time(const Plan& plan, const Format& target, const RunOptions& run,
                           unsigned kernels);

}  // namespace hfshard
