#pragma once

#include "tool/parser.h"

namespace hfshard {

/// Refuses an option that has no effect because another option is present or missing. Throws:
/// usage, naming both.
void check_pairs(const Parsed& parsed);

}  // namespace hfshard
