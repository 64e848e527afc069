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

/// Consecutive stored elements of a cell. They are a box of the array, packed with its axes in
/// Grid::order. Its far end can be outside of the array.
struct PieceBand {
  Box full;
  Box clipped;  ///< the part in the array
  std::uint64_t elements = 0;
};

/// Returns the place of an array's element in a band that has it. `strides` are the array's,
/// `stored` the band's.
std::uint64_t place_in_band(std::uint64_t element, const Shape& strides, const PieceBand& band,
                            const Shape& stored);

/// Returns a map from a band's stored elements to the targets of `by_source`. That is a map from
/// targets to elements of the array, all of them in the band's box (restrict_to). `strides` are the
/// array's.
IndexMap from_band(const IndexMap& by_source, const Shape& strides, const PieceBand& band,
                   const std::vector<std::uint8_t>& order);

/// Reads the pieces of one array that meet a box, band by band, each with at most `most_elements`.
/// Skips cells that `wants` declines, and calls `use` with the bands of the others. Throws: as
/// open_piece and PieceReader::read.
struct PieceWalk {
  const TensorInfo& array;
  const Grid& grid;
  std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open{};
  /// Whether to read whole cells, for a checksum or a decoder. Otherwise, reads only the bands that
  /// meet the box.
  bool whole_cells = true;
  Box box{};
  std::uint64_t most_elements = 0;
  std::span<std::byte> raw{};  ///< room for a band
};
/// Returns a function that opens the stored pieces of an array. `scratch` is for their reader.
std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open_stored_pieces(
    const Checkpoint& source, std::uint32_t array, std::span<std::byte> scratch);
void walk_pieces(const PieceWalk& walk, const std::function<bool(const Box& clipped)>& wants,
                 const std::function<void(const PieceBand&, std::span<const std::byte>)>& use);

}  // namespace hfshard
