#pragma once

#include <vector>

#include "ops/index_map.h"

namespace hfshard {

/// The most maps that one call of compose makes.
inline constexpr std::size_t kMostComposed = 4096;

/// Appends to `out` the maps through a tensor, from the source of `first` to the target of
/// `second`. The tensor is the target of `first` and the source of `second`. On both sides, its
/// offsets are those of row-major elements. The maps reach once every pair of elements that both
/// maps lead through the same element. They omit elements that only one map has. `first` writes no
/// element twice; `second` can read one several times. If steps on the two sides divide each other,
/// there are a few maps for any number of elements. Otherwise there is one for every step. Throws:
/// unsupported (more than kMostComposed maps, or 16 digits).
void compose(const IndexMap& first, const IndexMap& second, std::vector<IndexMap>& out);

}  // namespace hfshard
