#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bytes/crc_parts.h"
#include "catalog/checkpoint.h"
#include "format/dcp/item.h"

namespace hfshard::format::dcp {

/// A box of a piece: where it is in it, and where its bytes are.
struct PiecePart {
  const StoredBox* box = nullptr;
  std::shared_ptr<const SourceFile> file;
  Payload payload;         ///< of a packed item it is found when its elements are wanted
  std::uint64_t item = 0;  ///< its number, for CrcParts
};

/// A piece that is made of boxes, from front to back. `order`: axes slow to fast; `extent` in units
/// of so many bytes; `begin`: where the piece begins in the tensor, `shape` the tensor's.
struct PieceShape {
  Shape begin;
  Shape extent;
  Shape shape;
  std::vector<std::uint8_t> order;
  std::uint64_t unit_bytes = 1;
  std::uint64_t cell_bytes = 0;  ///< after so many bytes CRCs are handed over
};

/// What open_boxes needs, if so many packed items are decoded at a time (most_packed_at_once).
std::uint64_t piece_scratch_bytes(std::uint64_t packed_at_once) noexcept;

/// `tensor`, `checks` and `scratch` (piece_scratch_bytes) live as long as the reader.
std::unique_ptr<PieceReader> open_boxes(std::vector<PiecePart> parts, PieceShape form,
                                        const StoredTensor& tensor, CrcParts& checks,
                                        std::span<std::byte> scratch);

}  // namespace hfshard::format::dcp
