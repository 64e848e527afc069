#pragma once

#include <cstdint>
#include <string>

#include "hfshard/dtype.h"

namespace hfshard {

/// The layout of one chunk of a leaf on disk. A chunk has `head_bytes`, its cells, and `tail_bytes`
/// (an index of cells). Cells are the inner chunks in C order, or the whole chunk if the grid has
/// no inner chunks. A cell has `cell_bytes` of packed row-major elements and `cell_suffix_bytes` (a
/// checksum). Edge chunks have the full size too. With zstd, each cell becomes a frame. Before
/// encoding it has `cell_growth_bytes` more, since a frame can be longer than its cell.
struct PieceForm {
  std::uint64_t cell_bytes = 0;
  std::uint32_t cells = 1;
  std::uint32_t cell_suffix_bytes = 0;
  std::uint32_t tail_bytes = 0;
  int zstd_level = 0;  ///< 0 for uncompressed cells
  std::uint64_t cell_growth_bytes = 0;
  std::uint64_t scratch_bytes = 0;  ///< for encoding
  std::uint32_t head_bytes = 0;     ///< in front of the first cell
  /// Returns the distance between cells before encoding.
  std::uint64_t cell_step_bytes() const noexcept {
    return cell_bytes + cell_growth_bytes + cell_suffix_bytes;
  }
  /// Returns the size of a stored chunk. With zstd, it is the maximum.
  std::uint64_t stored_bytes() const noexcept {
    return head_bytes + cells * cell_step_bytes() + tail_bytes;
  }
  friend bool operator==(const PieceForm&, const PieceForm&) = default;
};

/// The place of a chunk: index of the data file, and byte range in it.
struct Place {
  std::uint32_t file = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// Returns the places of chunks. The plan computes them in closed form; for compressed chunks, they
/// were recorded while writing (run/engine/packing.h).
class Placements {
 public:
  virtual ~Placements() = default;
  /// Returns the path of a data file in the item directory: FileLayout::data_file.
  virtual std::string file_path(std::uint32_t file) const = 0;
  virtual std::uint32_t file_count() const = 0;
  /// Returns the place of a chunk. `chunk`: coordinates in the leaf's chunk grid.
  virtual Place place(std::uint32_t leaf, const Shape& chunk) const = 0;
};

}  // namespace hfshard
