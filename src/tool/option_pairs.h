#pragma once

#include "tool/parser.h"

namespace hfshard {

/// Refuses options of a command line of which one takes the other's effect away, and
/// options that mean nothing without another one. Throws: usage, naming both.
void check_pairs(const Parsed& parsed);

}  // namespace hfshard
