#pragma once

#include "hfshard/convert.h"

namespace hfshard {

/// Runs the program: parses the command line, runs one command, prints, and returns the exit
/// status. Only the test tool sets the parameters. `limits`: RunOptions::limits. `progress_ms`: the
/// time between two lines of progress without a terminal. `hub_retry_ms`: HubOptions::retry_ms.
int tool_main(int argc, const char* const* argv, const Limits* limits = nullptr,
              unsigned progress_ms = 30'000, unsigned hub_retry_ms = 1000);

}  // namespace hfshard
