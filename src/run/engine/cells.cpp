#include "run/engine/cells.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/coding.h"
#include "base/floats.h"
#include "ops/move.h"
#include "run/engine/unit_parts.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Appends the cells of one chunk in C order of the inner grid.
void append_cells(const Leaf& leaf, const Grid& grid, const PieceForm& form, const Shape& chunk,
                  std::uint64_t chunk_offset, std::vector<Cell>& out) {
  const std::size_t rank = leaf.shape.rank();
  Shape at;
  for (std::size_t d = 0; d < rank; ++d) at.push_back(0);
  for (std::uint32_t k = 0; k < form.cells; ++k) {
    Cell cell;
    cell.offset_bytes = chunk_offset + form.head_bytes + k * form.cell_step_bytes();
    for (std::size_t d = 0; d < rank; ++d) {
      const std::uint64_t begin = chunk[d] * grid.chunk[d] + at[d] * grid.inner[d];
      const std::uint64_t length = leaf.shape[d];
      cell.full.begin.push_back(begin);
      cell.full.extent.push_back(grid.inner[d]);
      cell.clipped.begin.push_back(std::min(begin, length));
      cell.clipped.extent.push_back(begin < length ? std::min(grid.inner[d], length - begin) : 0);
    }
    out.push_back(cell);
    for (std::size_t d = rank; d-- > 0;) {
      if (++at[d] < grid.chunk[d] / grid.inner[d]) break;
      at[d] = 0;
    }
  }
}

bool is_empty(const Box& box) {
  return std::ranges::any_of(box.extent, [](std::uint64_t extent) { return extent == 0; });
}

}  // namespace

std::vector<Shape> unit_chunks(const Layout& layout, const UnitRef& ref) {
  const Group& group = layout.group_of(ref);
  const UnitForm& form = layout.units()[group.leaf];
  const Shape origin = unit_origin(form, group.loop_index, ref.unit);
  std::vector<Shape> out;
  out.reserve(form.chunks_per_unit);
  Shape chunk = origin;
  for (std::uint64_t i = 0; i < form.chunks_per_unit; ++i) {
    out.push_back(chunk);
    for (std::size_t d = chunk.rank(); d-- > 0;) {
      if (++chunk[d] < origin[d] + form.span[d]) break;
      chunk[d] = origin[d];
    }
  }
  return out;
}

std::vector<Cell> unit_cells(const Layout& layout, const UnitRef& ref) {
  const std::uint32_t leaf = layout.group_of(ref).leaf;
  const UnitForm& form = layout.units()[leaf];
  if (form.slices) {
    const Box box = box_of(layout, ref);
    return {{box, box, 0}};
  }
  std::vector<Cell> out;
  out.reserve(form.chunks_per_unit * form.form.cells);
  std::uint64_t offset = 0;
  for (const Shape& chunk : unit_chunks(layout, ref)) {
    append_cells(layout.model().leaves[leaf], layout.grids()[leaf], form.form, chunk, offset, out);
    offset += form.stride_bytes;
  }
  return out;
}

namespace {

// Calls `move(piece, cell bytes)` for the part of `map` in each cell, with target offsets in the
// cell.
template <typename Bytes, typename Move>
void for_each_piece(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
                    std::span<Bytes> region, std::vector<IndexMap>& pieces, const Move& move) {
  for (const Cell& cell : cells) {
    if (is_empty(cell.clipped)) continue;
    pieces.clear();
    restrict_to(map, leaf.shape, cell.clipped, pieces);
    if (pieces.empty()) continue;
    const std::uint64_t size = packed_bytes(leaf.dtype, cell.full.extent.numel());
    for (const IndexMap& piece : pieces) {
      move(rebase_to_box(piece, leaf.shape, cell.full), region.subspan(cell.offset_bytes, size));
    }
  }
}

}  // namespace

void scatter(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
             std::span<const std::byte> src, std::span<std::byte> region,
             std::vector<IndexMap>& pieces) {
  const std::size_t element = size_bits(leaf.dtype) / 8;
  for_each_piece(leaf, cells, map, region, pieces,
                 [&](const IndexMap& piece, std::span<std::byte> cell) {
                   move_elements(piece, element, src, cell);
                 });
}

void gather(const Leaf& leaf, const std::vector<Cell>& cells, const IndexMap& map,
            std::span<const std::byte> region, std::span<std::byte> src,
            std::vector<IndexMap>& pieces) {
  const std::size_t element = size_bits(leaf.dtype) / 8;
  for_each_piece(leaf, cells, map, region, pieces,
                 [&](const IndexMap& piece, std::span<const std::byte> cell) {
                   move_elements(inverse(piece), element, cell, src);
                 });
}

std::vector<std::byte> scalar_bytes(double scalar, DType dtype) {
  std::vector<std::byte> out(size_bits(dtype) / 8, std::byte{0});
  switch (dtype) {
    case DType::f64:
      store_le(out.data(), scalar);
      break;
    case DType::f32:
      store_le(out.data(), static_cast<float>(scalar));
      break;
    case DType::f16:
      store_le(out.data(), f32_to_f16(static_cast<float>(scalar)));
      break;
    case DType::bf16:
      store_le(out.data(), f32_to_bf16(static_cast<float>(scalar)));
      break;
    default:
      if (scalar != 0) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("can't fill a {} tensor with {}", to_string(dtype), scalar));
      }
  }
  return out;
}

}  // namespace hfshard
