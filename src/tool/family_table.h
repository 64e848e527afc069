#pragma once

#include <vector>

#include "hfshard/hfshard.h"

namespace hfshard {

/// What `mappings list` shows of each family, in the columns that standard output has.
void print_families(const std::vector<FamilySummary>& families);

}  // namespace hfshard
