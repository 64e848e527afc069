#pragma once

#include "hfshard/convert.h"

namespace hfshard {

/// The whole program: parses the command line, runs one command, prints, and returns the exit
/// status. `limits` is RunOptions::limits, which only the test tool sets.
int tool_main(int argc, const char* const* argv, const Limits* limits = nullptr);

}  // namespace hfshard
