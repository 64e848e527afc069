#pragma once

#include "bytes/store/store.h"
#include "service/bring.h"

#include "hfshard/convert.h"
#include "hfshard/plan.h"
#include "hfshard/report.h"

namespace hfshard {

/// Returns how find_place brings the files of a Hub model for a run.
BringOptions bring_options(const RunOptions& run, Reporter& reporter);

/// Converts the checkpoint at a place that is open already. Throws: see convert.
ConvertReport convert_place(const StorePath& place, const PlanOptions& options,
                            const RunOptions& run, Reporter& reporter);

}  // namespace hfshard
