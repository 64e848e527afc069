#pragma once

#include <vector>

#include "ops/index_map.h"

namespace hfshard {

/// Most maps that one call of compose makes.
inline constexpr std::size_t kMostComposed = 4096;

/// Appends to `out` the maps that go through a tensor: from the source of `first`, whose target is
/// that tensor, to the target of `second`, whose source it is. Offsets of the tensor are those of
/// its row-major elements on both sides. Every pair of elements that both maps lead through the
/// same element is reached once; what only one of them has is left out. `first` writes no element
/// twice; `second` may read one several times. Where steps on the two sides divide each other there
/// are a few maps, however many elements; else one for every step. Throws: unsupported (more than
/// kMostComposed maps, or 16 digits).
void compose(const IndexMap& first, const IndexMap& second, std::vector<IndexMap>& out);

}  // namespace hfshard
