#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ops/transfer.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"

namespace hfshard {

/// The grid with which a leaf can be linked: each chunk is a run of bytes of one source tensor,
/// with its axes in `grid.order`. Without a grid, `why` states the reason.
struct LinkChoice {
  std::optional<Grid> grid;
  std::string why;
};

/// Splits a leaf for linking. `transfers` are those of the leaf; `shard` is the shape of a mesh
/// shard. Chunks are whole source tensors, split where that costs nothing. That is along the
/// slowest axis of the source, and along the next one if pieces of one index reach the floor.
LinkChoice link_grid(const Leaf& leaf, std::span<const Transfer* const> transfers, bool has_fills,
                     const Shape& shard, std::uint64_t chunk_bytes, const Limits& limits);

/// The source elements of a chunk, a single run.
struct LinkedChunk {
  std::size_t transfer = 0;  ///< position in `transfers`
  std::uint64_t source = 0;  ///< index into Transfer::sources
  std::uint64_t begin = 0;   ///< its first element in the flattened source
};

/// Returns the place of a chunk of a linked leaf. Nothing if it isn't one run in the grid's order.
std::optional<LinkedChunk> linked_chunk(const Leaf& leaf, const Grid& grid,
                                        std::span<const Transfer* const> transfers,
                                        const Shape& chunk);

}  // namespace hfshard
