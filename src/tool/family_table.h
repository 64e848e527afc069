#pragma once

#include <vector>

#include "hfshard/hfshard.h"

namespace hfshard {

/// Returns the table of `mappings list` for the width of standard output.
void print_families(const std::vector<FamilySummary>& families);

}  // namespace hfshard
