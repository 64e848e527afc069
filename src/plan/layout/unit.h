#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "catalog/catalog.h"
#include "catalog/piece.h"
#include "ops/transfer.h"
#include "plan/layout/cut_grid.h"
#include "plan/layout/limits.h"

namespace hfshard {

/// How a leaf that is stored whole is cut into units: slices along one axis, for one place on all
/// axes before it after the other, so that together they are its packed rows. At the end of the
/// axis one may be short.
struct Slices {
  Shape extent;                  ///< of a slice that is not short
  std::uint64_t rows = 0;        ///< length of the axis that is cut
  std::uint64_t slice_rows = 0;  ///< of them, in a slice
  std::uint64_t row_bytes = 0;   ///< of one of them: all that axes behind it hold
  friend bool operator==(const Slices&, const Slices&) = default;
};

/// How the chunks of one leaf are grouped. A *unit* is the smallest closed group of chunks: along a
/// closed axis it holds the whole leaf, along an open axis a span of chunks, which divides their
/// number. All units of a leaf have the same size on disk, but for slices. Axes that pick the
/// source tensor and are open number the leaf's *groups*; the other open axes number the units
/// within a group. Of a leaf that is stored whole, slices stand for chunks.
struct UnitForm {
  Shape counts;                     ///< chunks along each axis
  Shape span;                       ///< those of one unit
  std::vector<bool> loop;           ///< per axis: moved by a loop of the first transfer
  std::vector<std::uint8_t> order;  ///< open non-loop axes, slowest in the source first
  PieceForm form;
  std::uint64_t stride_bytes = 0;     ///< from chunk to chunk on disk (aligned)
  std::uint64_t chunks_per_unit = 0;  ///< product of the spans
  std::uint64_t units_per_group = 0;  ///< product of the units over `order`
  std::uint64_t groups = 0;           ///< product of the units over open loop axes
  std::uint64_t scratch_bytes =
      0;  ///< beside the region: source band, converted band, gathered row
  std::optional<Slices>
      slices;  ///< of a leaf that is stored whole: a unit is less than its one chunk
  /// Of a unit that is not short.
  std::uint64_t region_bytes() const noexcept { return chunks_per_unit * stride_bytes; }
  bool closed(std::size_t axis) const noexcept { return span[axis] == counts[axis]; }
  /// Units along an axis.
  std::uint64_t units(std::size_t axis) const noexcept {
    return closed(axis) ? 1 : counts[axis] / span[axis];
  }
  friend bool operator==(const UnitForm&, const UnitForm&) = default;
};

/// One group of units: chunk coordinates along the open loop axes are fixed. Its units follow each
/// other on disk.
struct Group {
  std::uint32_t leaf = 0;
  std::uint32_t loop_index = 0;  ///< row-major over the open loop axes
  std::uint64_t address = 0;     ///< of its first unit in the concatenation of all data files
};

/// What a leaf's units must be so that they take the pieces of its sources as those come.
struct SourcePieces {
  Shape window;                     ///< piece_window
  std::uint64_t scratch_bytes = 0;  ///< PieceBands
  /// Whether units hold whole rows of the first source: who hashes them, or reads nothing less,
  /// wants that.
  bool whole_rows = true;
};

/// Decides which axes are closed and sizes everything. `transfers` are those of this leaf, the
/// first one leads; `pieces` is null where no source is read by pieces. Throws: unsupported as
/// Format::form.
UnitForm find_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces);
/// Whether the run can hold such a unit.
bool fits_slab(const UnitForm& unit, const Limits& limits) noexcept;
/// find_unit_form, and it fits. Throws: limit when a unit would exceed the slab.
UnitForm make_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces = nullptr);

/// The units of a leaf that is stored whole: slices of about a quarter of Limits::merge_bytes, but
/// each with all of the source rows, and pieces, that it needs. `form` is the whole leaf's.
UnitForm find_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits, const SourcePieces* pieces);
/// The same, and it fits. Throws: limit when such a slice would exceed the slab.
UnitForm make_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits,
                          const SourcePieces* pieces = nullptr);

/// Where a unit lies behind the first one of its group; of the number of units, where that ends.
std::uint64_t unit_offset(const UnitForm& form, std::uint64_t unit) noexcept;
/// The unit at such an offset, which must be one's.
std::uint64_t unit_at_offset(const UnitForm& form, std::uint64_t offset);

/// Chunk coordinates of the first chunk of unit `unit` of a group.
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
