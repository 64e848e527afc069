#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "ops/transfer.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"

namespace hfshard {

/// How a leaf can be linked: cut so that each chunk is a run of bytes of one source tensor, its
/// axes stored in `grid.order`. Without a grid `why` says what stands against it.
struct LinkChoice {
  std::optional<Grid> grid;
  std::string why;
};

/// Cuts a leaf for linking. `transfers` are those of the leaf; `shard` is the extent of one mesh
/// shard per axis. Chunks are whole source tensors, cut where that costs nothing: along the
/// slowest axis of the source, and along the next where pieces of one index reach the floor.
LinkChoice link_grid(const Leaf& leaf, std::span<const Transfer* const> transfers, bool has_fills,
                     const Shape& shard, std::uint64_t chunk_bytes, const Limits& limits);

/// The run of source elements that a chunk is.
struct LinkedChunk {
  std::size_t transfer = 0;  ///< position in `transfers`
  std::uint64_t source = 0;  ///< index into Transfer::sources
  std::uint64_t begin = 0;   ///< its first element in the flattened source
};

/// Where a chunk of a linked leaf lies; nothing if it is not one run in the order of the grid.
std::optional<LinkedChunk> linked_chunk(const Leaf& leaf, const Grid& grid,
                                        std::span<const Transfer* const> transfers,
                                        const Shape& chunk);

}  // namespace hfshard
