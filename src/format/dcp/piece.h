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
  Payload payload;
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

inline constexpr std::uint64_t kPieceScratch = std::uint64_t{64} << 10;

std::unique_ptr<PieceReader> open_boxes(std::vector<PiecePart> parts, PieceShape form,
                                        const std::string& tensor, CrcParts& checks,
                                        std::span<std::byte> scratch);

}  // namespace hfshard::format::dcp
