#pragma once

#include "hfshard/convert.h"

namespace hfshard {

/// The whole program: parses the command line, runs one command, prints, and returns the exit
/// status. What only the test tool sets: `limits`, RunOptions::limits; `progress_ms`, the time
/// between two lines of progress where there is no terminal; `hub_retry_ms`, HubOptions::retry_ms.
int tool_main(int argc, const char* const* argv, const Limits* limits = nullptr,
              unsigned progress_ms = 30'000, unsigned hub_retry_ms = 1000);

}  // namespace hfshard
