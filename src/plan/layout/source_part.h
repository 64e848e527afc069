#pragma once

#include <cstdint>
#include <functional>

#include "ops/index_map.h"
#include "ops/transfer.h"

namespace hfshard {

/// Visits the sources of a transfer that reach into a box of its leaf, in source order: the index
/// into Transfer::sources, and a part of `map` whose target elements lie in the box (offsets stay
/// those of the whole source and the whole leaf). `map` is the transfer's, its digits split as the
/// caller needs them; none may span two axes of the leaf.
void for_each_source_part(
    const Transfer& transfer, const IndexMap& map, const Leaf& leaf, const Box& box,
    const std::function<void(std::uint64_t source, const IndexMap& part)>& visit);

}  // namespace hfshard
