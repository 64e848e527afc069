#pragma once

#include <cstdint>
#include <string>

#include "mutation/cases.h"

namespace hfshard::mutation {

/// Returns a leaf that an oracle confirmed, with another number of vocabulary rows. Extra rows are
/// removed, new ones are zero. Leaves without a vocabulary stay unchanged.
Bytes with_rows(const Case& whole, std::uint32_t leaf, std::uint64_t rows);

/// Makes a leaf of a model with fewer parts or stacked layers from leaves that an oracle confirmed.
/// Uses the one with the same path, or all `layers_<l>` in the order of l, stacked along axis 1 (or
/// the last). Throws if the oracle has no such leaf.
Bytes made_of(const Case& whole, const Leaf& leaf);

}  // namespace hfshard::mutation
