#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bytes/local/crc_parts.h"
#include "catalog/checkpoint.h"
#include "format/dcp/item.h"

namespace hfshard::format::dcp {

/// A box of a piece: its place there, and the place of its bytes.
struct PiecePart {
  const StoredBox* box = nullptr;
  std::shared_ptr<const SourceFile> file;
  Payload payload;         ///< for a packed item, found later
  std::uint64_t item = 0;  ///< number for CrcParts
};

/// A piece that consists of boxes, read from front to back. `order` has the axes, slow to fast.
/// `extent` is in units of `unit_bytes`. `begin` is the piece's place in the tensor, whose shape is
/// `shape`.
struct PieceShape {
  Shape begin;
  Shape extent;
  Shape shape;
  std::vector<std::uint8_t> order;
  std::uint64_t unit_bytes = 1;
  std::uint64_t cell_bytes = 0;  ///< length of parts for CRCs
};

/// Returns the scratch for open_boxes with so many packed items at a time (most_packed_at_once).
std::uint64_t piece_scratch_bytes(std::uint64_t packed_at_once) noexcept;

/// Opens a reader. `tensor`, `checks` and `scratch` (piece_scratch_bytes) must outlive it.
std::unique_ptr<PieceReader> open_boxes(std::vector<PiecePart> parts, PieceShape form,
                                        const StoredTensor& tensor, CrcParts& checks,
                                        std::span<std::byte> scratch);

}  // namespace hfshard::format::dcp
