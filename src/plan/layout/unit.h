#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/piece.h"
#include "ops/transfer.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"

namespace hfshard {

/// How the chunks of one leaf are grouped. A *unit* is the smallest closed group of chunks: along a
/// closed axis it holds the whole leaf, along an open axis one chunk. All units of a leaf have the
/// same size on disk. Axes that pick the source tensor and are open span the leaf's *groups*; the
/// other open axes number the units within a group.
struct UnitForm {
  Shape counts;                     ///< chunks along each axis
  std::vector<bool> closed;         ///< per axis
  std::vector<bool> loop;           ///< per axis: moved by a loop of the first transfer
  std::vector<std::uint8_t> order;  ///< open non-loop axes, slowest in the source first
  PieceForm form;
  std::uint64_t stride_bytes = 0;     ///< from chunk to chunk on disk (aligned)
  std::uint64_t chunks_per_unit = 0;  ///< product of counts over closed axes
  std::uint64_t units_per_group = 0;  ///< product of counts over `order`
  std::uint64_t groups = 0;           ///< product of counts over open loop axes
  std::uint64_t scratch_bytes =
      0;  ///< beside the region: source band, converted band, gathered row
  std::uint64_t region_bytes() const noexcept { return chunks_per_unit * stride_bytes; }
  friend bool operator==(const UnitForm&, const UnitForm&) = default;
};

/// One group of units: chunk coordinates along the open loop axes are fixed. Its units follow each
/// other on disk.
struct Group {
  std::uint32_t leaf = 0;
  std::uint32_t loop_index = 0;  ///< row-major over the open loop axes
  std::uint64_t address = 0;     ///< of its first unit in the concatenation of all data files
};

/// Decides which axes are closed and sizes everything. `transfers` are those of this leaf, the
/// first one leads. Throws: limit when a unit would exceed the slab; unsupported as Format::form.
UnitForm make_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits);

/// Chunk coordinates of unit `unit` of a group; closed axes are 0.
Shape unit_origin(const UnitForm& form, std::uint32_t loop_index, std::uint64_t unit);

/// The box of leaf elements that a unit covers (edge chunks are clipped to the leaf).
Box unit_box(const Leaf& leaf, const Grid& grid, const UnitForm& form, const Shape& origin);

/// Index of the group and of the unit within it that hold a chunk, and the chunk's position within
/// the unit.
struct ChunkIndex {
  std::uint32_t loop_index = 0;
  std::uint64_t unit = 0;
  std::uint64_t position = 0;
};
ChunkIndex chunk_index(const UnitForm& form, const Shape& chunk);

}  // namespace hfshard
