#pragma once

#include "tool/cli.h"

#include "hfshard/hfshard.h"

namespace hfshard {

/// Runs `reshard --steps`: reshards several steps of a run, and prints each step once it is
/// published. Returns the exit status. Throws: as convert_steps.
int run_steps(const Session& session, const SourceName& source, const PlanOptions& wanted,
              const RunOptions& options, const StepList& steps);

}  // namespace hfshard
