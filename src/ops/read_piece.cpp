#include "ops/read_piece.h"

#include "ops/index_map.h"
#include "ops/move.h"

namespace hfshard {
namespace {

// Maps a stored cell's elements to their places in the row-major piece.
IndexMap undo_order(const Grid& grid, const Shape& cell) {
  const Shape strides = grid.chunk.strides();
  const Shape stored = stored_strides(grid.inner, grid.order);
  IndexMap map;
  for (std::size_t axis = 0; axis < grid.inner.rank(); ++axis) {
    map.dst_base += cell[axis] * grid.inner[axis] * strides[axis];
    map.digits.push_back({grid.inner[axis], static_cast<std::int64_t>(stored[axis]),
                          static_cast<std::int64_t>(strides[axis])});
  }
  return normalize(map);
}

// Returns the size of a cell that can't be read directly into its place, or 0.
std::uint64_t cell_bytes(const Catalog& catalog, std::uint32_t array, const Grid& grid) {
  if (grid.order.empty() && !grid.has_inner()) return 0;
  return packed_bytes(catalog.tensors[array].dtype, grid.inner.numel());
}

}  // namespace

std::uint64_t row_major_scratch_bytes(const Checkpoint& checkpoint, std::uint32_t array) {
  const Catalog& catalog = checkpoint.catalog();
  return cell_bytes(catalog, array, catalog.grid_of(array)) +
         checkpoint.scratch_bytes(array, PieceSteps::whole_cells);
}

void read_row_major(const Checkpoint& checkpoint, std::uint32_t array, const Shape& piece,
                    std::span<std::byte> out, std::span<std::byte> scratch) {
  const Grid grid = checkpoint.catalog().grid_of(array);
  const auto stored = scratch.first(cell_bytes(checkpoint.catalog(), array, grid));
  const auto reader =
      checkpoint.open_piece(array, piece, PieceSteps::whole_cells, scratch.subspan(stored.size()));
  if (stored.empty()) return reader->read(out);
  const std::size_t element = size_bits(checkpoint.catalog().tensors[array].dtype) / 8;
  for_each_chunk(chunk_counts(grid.chunk, grid.inner), [&](const Shape& cell) {
    reader->read(stored);
    move_elements(undo_order(grid, cell), element, stored, out);
    return true;
  });
}

}  // namespace hfshard
