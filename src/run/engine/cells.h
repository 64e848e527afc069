#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/transfer.h"
#include "plan/layout/layout.h"

namespace hfshard {

/// One cell (inner chunk, or slice) of a unit, with the start of its bytes in the region. `clipped`
/// is the part of its box in the leaf.
struct Cell {
  Box full;
  Box clipped;
  std::uint64_t offset_bytes = 0;
};

/// Returns the coordinates of every chunk of a unit, in region order.
std::vector<Shape> unit_chunks(const Layout& layout, const UnitRef& ref);
/// Returns the cells of a unit in region order. Chunks follow each other every `stride_bytes`. A
/// slice is one cell, which ends with the leaf.
std::vector<Cell> unit_cells(const Layout& layout, const UnitRef& ref);

/// Moves the elements of `map` into their cells. Source offsets are relative to `src`, target
/// offsets are in the whole leaf. `pieces` is working memory, reused between calls.
void scatter(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
             std::span<const std::byte> src, std::span<std::byte> region,
             std::vector<IndexMap>& pieces);

/// Collects the elements of `map` from the cells into `src`, at its source offsets.
void gather(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
            std::span<const std::byte> region, std::span<std::byte> src,
            std::vector<IndexMap>& pieces);

/// Returns a fill's constant in the bytes of a dtype. Throws: unsupported (the dtype can't
/// represent a constant other than 0).
std::vector<std::byte> scalar_bytes(double scalar, DType dtype);

}  // namespace hfshard
