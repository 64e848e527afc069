#pragma once

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/commit/journal.h"
#include "run/commit/staging.h"
#include "run/engine/pipeline.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Runs a plan into its target: staging, pipeline, journal and, unless this is one worker of
/// several, publish. `hook` is for tests. Throws: what every part throws; what is written stays,
/// resumable.
RunResult run_convert(const Plan& plan, const Format& target, const RunOptions& options,
                      Reporter& reporter, const std::function<void(Stage, const Tile&)>& hook = {});

/// Publishes an output whose workers are done; one that an interrupted run has published is done
/// already. Throws: conflict naming the missing shares.
RunResult run_finalize(const Plan& plan, const Format& target, const RunOptions& options,
                       Reporter& reporter);

/// The part of the address space that worker I of N writes: whole files.
ByteRange worker_share(const Plan& plan, std::uint32_t worker, std::uint32_t workers);

}  // namespace hfshard
