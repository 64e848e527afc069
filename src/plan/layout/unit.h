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

/// The units of a leaf that is stored whole: slices along one axis. Each place on the axes before
/// it has its own slices, in order, so all slices together are packed rows. The last slice of an
/// axis can be shorter.
struct Slices {
  Shape extent;                  ///< of a full slice
  std::uint64_t rows = 0;        ///< length of the cut axis
  std::uint64_t slice_rows = 0;  ///< in a full slice
  std::uint64_t row_bytes = 0;   ///< of one row, with all inner axes
  friend bool operator==(const Slices&, const Slices&) = default;
};

/// The groups of a leaf's chunks. A *unit* is the smallest closed group of chunks. Along a closed
/// axis it has the whole leaf. Along an open axis it has a span of chunks, which divides their
/// number. All units of a leaf have the same size on disk, except slices. Open axes that select the
/// source tensor number the leaf's *groups*; the other open axes number the units in a group. For a
/// leaf that is stored whole, slices take the place of chunks.
struct UnitForm {
  Shape counts;                     ///< chunks along each axis
  Shape span;                       ///< of one unit
  std::vector<bool> loop;           ///< per axis: a loop moves it
  std::vector<std::uint8_t> order;  ///< open non-loop axes, slowest first
  PieceForm form;
  std::uint64_t stride_bytes = 0;     ///< from chunk to chunk on disk (aligned)
  std::uint64_t chunks_per_unit = 0;  ///< product of the spans
  std::uint64_t units_per_group = 0;  ///< product of the units over `order`
  std::uint64_t groups = 0;           ///< product of the units over open loop axes
  /// In addition to the region: source band, converted band, gathered row.
  std::uint64_t scratch_bytes = 0;
  /// For a leaf that is stored whole, whose units are less than its one chunk.
  std::optional<Slices> slices;
  /// Returns the region of a full unit.
  std::uint64_t region_bytes() const noexcept { return chunks_per_unit * stride_bytes; }
  bool closed(std::size_t axis) const noexcept { return span[axis] == counts[axis]; }
  /// Returns the units along an axis.
  std::uint64_t units(std::size_t axis) const noexcept {
    return closed(axis) ? 1 : counts[axis] / span[axis];
  }
  friend bool operator==(const UnitForm&, const UnitForm&) = default;
};

/// A group of units with fixed chunk coordinates along the open loop axes. Its units are
/// consecutive on disk.
struct Group {
  std::uint32_t leaf = 0;
  std::uint32_t loop_index = 0;  ///< row-major over the open loop axes
  std::uint64_t address = 0;     ///< of its first unit
};

/// The requirements for units that take the pieces of their sources as they come.
struct SourcePieces {
  Shape window;                     ///< piece_window
  std::uint64_t scratch_bytes = 0;  ///< PieceBands
  /// Units have whole rows of the first source. Needed for hashing, and if nothing less is read.
  bool whole_rows = true;
};

/// Decides which axes are closed, and computes all sizes. `transfers` are those of this leaf; the
/// first one leads. `pieces` is null unless a source is read by pieces. Throws: unsupported as
/// Format::form.
UnitForm find_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces);
/// Returns whether the run can hold such a unit.
bool fits_slab(const UnitForm& unit, const Limits& limits) noexcept;
/// Returns find_unit_form if it fits. Throws: limit if a unit would exceed the slab.
UnitForm make_unit_form(const Leaf& leaf, const Grid& grid,
                        std::span<const Transfer* const> transfers, const PieceForm& form,
                        const Limits& limits, const SourcePieces* pieces = nullptr);

/// Returns the units of a leaf that is stored whole: slices of about a quarter of
/// Limits::merge_bytes. Each has all source rows and pieces that it needs. `form` is the whole
/// leaf's.
UnitForm find_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits, const SourcePieces* pieces);
/// Returns find_sliced_unit if it fits. Throws: limit if such a slice would exceed the slab.
UnitForm make_sliced_unit(const Leaf& leaf, std::span<const Transfer* const> transfers,
                          const PieceForm& form, const Limits& limits,
                          const SourcePieces* pieces = nullptr);

/// Returns the distance of a unit from the first one of its group. For the number of units, returns
/// the group's size.
std::uint64_t unit_offset(const UnitForm& form, std::uint64_t unit) noexcept;
/// Returns the unit at such an offset. There must be one.
std::uint64_t unit_at_offset(const UnitForm& form, std::uint64_t offset);

/// Returns the coordinates of the first chunk of unit `unit` of a group.
Shape unit_origin(const UnitForm& form, std::uint32_t loop_index, std::uint64_t unit);

/// Returns the box of leaf elements that a unit covers (edge chunks are clipped to the leaf).
Box unit_box(const Leaf& leaf, const Grid& grid, const UnitForm& form, const Shape& origin);

/// The group of a chunk, its unit in the group, and its position in the unit.
struct ChunkIndex {
  std::uint32_t loop_index = 0;
  std::uint64_t unit = 0;
  std::uint64_t position = 0;
};
ChunkIndex chunk_index(const UnitForm& form, const Shape& chunk);

}  // namespace hfshard
