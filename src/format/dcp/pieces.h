#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/grid.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// The boxes of a tensor as pieces of a regular grid. Each piece consists of whole boxes and is as
/// small as possible. Boxes of shards already are such a grid, whose last pieces end with the
/// tensor. Boxes share a piece only if their lengths along an axis vary. FORMAT.md, Pieces.
struct PieceBoxes {
  Shape chunk;                       ///< extent of a piece, in units
  Shape counts;                      ///< of pieces
  std::vector<std::uint32_t> first;  ///< per piece, into `boxes`; then the end
  std::vector<std::uint32_t> boxes;  ///< numbers of the tensor's boxes
};

/// Cuts a tensor. Throws: corrupt (boxes that leave a hole or overlap, naming the tensor and the
/// boxes), limit (too many irregular boxes).
PieceBoxes cut_pieces(const StoredTensor& tensor, const std::string& file);

/// Returns how many packed items a reader of one piece has open at a time, at most. It reads pieces
/// with their axes in that order (slow to fast), and items from first to last element.
std::uint64_t most_packed_at_once(const StoredTensor& tensor, const PieceBoxes& pieces,
                                  const std::vector<std::uint8_t>& order);

}  // namespace hfshard::format::dcp
