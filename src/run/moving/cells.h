#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/transfer.h"
#include "plan/layout/layout.h"

namespace hfshard {

/// One cell (inner chunk, or slice) of a unit: its full box, the part inside the leaf, and where
/// its bytes start in the region.
struct Cell {
  Box full;
  Box clipped;
  std::uint64_t offset_bytes = 0;
};

/// Chunk coordinates of every chunk of a unit, in region order.
std::vector<Shape> unit_chunks(const Layout& layout, const UnitRef& ref);
/// The cells of a unit in region order. Chunks of the unit follow each other every `stride_bytes`.
/// A slice is one cell, which ends with the leaf.
std::vector<Cell> unit_cells(const Layout& layout, const UnitRef& ref);

/// Moves the elements of `map` (source offsets relative to `src`, target offsets in the whole leaf)
/// into every cell that they fall in. `pieces` is working memory, reused between calls.
void scatter(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
             std::span<const std::byte> src, std::span<std::byte> region,
             std::vector<IndexMap>& pieces);

/// The reverse: collects the elements of `map` from the cells into `src`, at its source offsets.
void gather(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
            std::span<const std::byte> region, std::span<std::byte> src,
            std::vector<IndexMap>& pieces);

/// A fill's constant in the bytes of a dtype. Throws: unsupported (a constant other than 0 in a
/// dtype without it).
std::vector<std::byte> scalar_bytes(double scalar, DType dtype);

}  // namespace hfshard
