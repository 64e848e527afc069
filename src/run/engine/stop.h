#pragma once

#include "hfshard/convert.h"

namespace hfshard {

/// Stops a run if requested. Called in every loop over data, until the output is about to be
/// published. Throws: cancelled.
void check_stop(const RunOptions& options);
/// Says what is left of a run with an output. `kept`: a run with --resume finds data. Throws:
/// cancelled.
[[noreturn]] void throw_stopped(const RunOptions& options, bool kept = true);

}  // namespace hfshard
