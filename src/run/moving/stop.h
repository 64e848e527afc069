#pragma once

#include "hfshard/convert.h"

namespace hfshard {

/// Ends what may be ended: called in every loop over data, until the output is about to be
/// published. Throws: cancelled, if the run is to stop.
void check_stop(const RunOptions& options);
/// Throws: cancelled.
[[noreturn]] void throw_stopped(const RunOptions& options);

}  // namespace hfshard
