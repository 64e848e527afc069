#pragma once

#include <cstdint>
#include <string>

#include "mutation/cases.h"

namespace hfshard::mutation {

/// A leaf that an oracle confirmed, with another number of rows of the vocabulary: those beyond are
/// left out, new ones are zero. Leaves without a vocabulary stay as they are.
Bytes with_rows(const Case& whole, std::uint32_t leaf, std::uint64_t rows);

/// A leaf of a model with fewer parts or with its layers stacked, made of leaves that an oracle
/// confirmed: the one with the same path, or all `layers_<l>` in the order of l, stacked along the
/// axis 1 (or the last). Throws if the oracle has no such leaf.
Bytes made_of(const Case& whole, const Leaf& leaf);

}  // namespace hfshard::mutation
