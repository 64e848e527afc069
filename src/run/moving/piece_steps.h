#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "catalog/checkpoint.h"
#include "ops/index_map.h"

namespace hfshard {

/// Some consecutive stored elements of a cell: a box of the array, whose far end may lie outside of
/// it, packed with its axes in Grid::order.
struct PieceBand {
  Box full;
  Box clipped;  ///< what lies in the array
  std::uint64_t elements = 0;
};

/// Where an element of the array is among those of a band that holds it. `strides`: of the array;
/// `stored`: of the band.
std::uint64_t place_in_band(std::uint64_t element, const Shape& strides, const PieceBand& band,
                            const Shape& stored);

/// From the elements of a band as they are stored to the targets of `by_source`, which is a map
/// from targets to elements of the array, all of them in the band's box (restrict_to). `strides`
/// are the array's.
IndexMap from_band(const IndexMap& by_source, const Shape& strides, const PieceBand& band,
                   const std::vector<std::uint8_t>& order);

/// Reads the pieces of one array that a box of it meets, band by band, each at most `most_elements`
/// long. Cells that `wants` declines are passed over: `use` is called with the bands of the others.
/// Throws: as open_piece and PieceReader::read.
struct PieceWalk {
  const TensorInfo& array;
  const Grid& grid;
  std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open{};
  /// Cells that are met are read whole, since a checksum or a decoder wants that; else only the
  /// bands in which something of the box is.
  bool whole_cells = true;
  Box box{};
  std::uint64_t most_elements = 0;
  std::span<std::byte> raw{};  ///< has room for a band
};
/// Of the stored pieces of an array; `scratch` is their reader's.
std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open_stored_pieces(
    const Checkpoint& source, std::uint32_t array, std::span<std::byte> scratch);
void walk_pieces(const PieceWalk& walk, const std::function<bool(const Box& clipped)>& wants,
                 const std::function<void(const PieceBand&, std::span<const std::byte>)>& use);

}  // namespace hfshard
