#pragma once

#include <cstdint>
#include <string>

#include "hfshard/dtype.h"

namespace hfshard {

/// How one chunk of a leaf lies on disk. A chunk is a sequence of cells (inner chunks in C order;
/// one cell when the grid has no inner chunks), each `cell_bytes` of packed row-major elements
/// followed by `cell_suffix_bytes` (a checksum), between `head_bytes` and `tail_bytes` (an index of
/// cells). All full size, edge chunks too. With zstd each cell becomes a frame, of a length that
/// only encoding tells; until then it has `cell_growth_bytes` of room for what a frame may be
/// longer than it.
struct PieceForm {
  std::uint64_t cell_bytes = 0;
  std::uint32_t cells = 1;
  std::uint32_t cell_suffix_bytes = 0;
  std::uint32_t tail_bytes = 0;
  int zstd_level = 0;  ///< 0: the cells are stored as they are
  std::uint64_t cell_growth_bytes = 0;
  std::uint64_t scratch_bytes = 0;  ///< that encoding needs beside the chunk
  std::uint32_t head_bytes = 0;     ///< in front of the first cell
  /// From cell to cell before encoding.
  std::uint64_t cell_step_bytes() const noexcept {
    return cell_bytes + cell_growth_bytes + cell_suffix_bytes;
  }
  /// What a stored chunk has; with zstd, has at most.
  std::uint64_t stored_bytes() const noexcept {
    return head_bytes + cells * cell_step_bytes() + tail_bytes;
  }
  friend bool operator==(const PieceForm&, const PieceForm&) = default;
};

/// Where a chunk is: data file index and byte range there.
struct Place {
  std::uint32_t file = 0;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
};

/// Answers where chunks are: the plan, in closed form; of compressed chunks, what was written
/// (run/moving/packing.h).
class Placements {
 public:
  virtual ~Placements() = default;
  /// Path of a data file below the item directory: FileLayout::data_file.
  virtual std::string file_path(std::uint32_t file) const = 0;
  virtual std::uint32_t file_count() const = 0;
  /// `chunk`: coordinates in the leaf's chunk grid.
  virtual Place place(std::uint32_t leaf, const Shape& chunk) const = 0;
};

}  // namespace hfshard
