#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "catalog/grid.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// The boxes of a tensor as pieces of a regular grid: each piece is made of whole boxes, and is as
/// small as that allows. Boxes of shards are such a grid themselves, whose last pieces end with
/// the tensor; only boxes of several lengths along an axis share a piece. FORMAT.md, Pieces.
struct PieceBoxes {
  Shape chunk;                       ///< extent of a piece, in units
  Shape counts;                      ///< of pieces
  std::vector<std::uint32_t> first;  ///< of each piece, into `boxes`; then the end
  std::vector<std::uint32_t> boxes;  ///< numbers of the tensor's boxes
};

/// Throws: corrupt (boxes that leave a hole or overlap, naming the tensor and the boxes), limit
/// (irregular boxes without end).
PieceBoxes cut_pieces(const StoredTensor& tensor, const std::string& file);

/// How many packed items a reader of one piece is within at a time, at most: pieces are read with
/// their axes in that order (slow to fast), items from their first element to their last.
std::uint64_t most_packed_at_once(const StoredTensor& tensor, const PieceBoxes& pieces,
                                  const std::vector<std::uint8_t>& order);

}  // namespace hfshard::format::dcp
