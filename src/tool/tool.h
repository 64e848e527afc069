#pragma once

#include "plan/layout/limits.h"

namespace hfshard {

/// The whole program: parses the command line, runs one command, prints, and returns the exit
/// status. `limits` are constants in the product; only the test tool passes others.
int tool_main(int argc, const char* const* argv, const Limits& limits = {});

}  // namespace hfshard
