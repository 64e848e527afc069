#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "catalog/catalog.h"

namespace hfshard {

/// The steps in which a piece will be read. They decide how much memory its decoder needs.
enum class PieceSteps : std::uint8_t {
  whole_cells,  ///< inner chunks, or the whole piece
  any,          ///< any length
};

/// Reads the decoded bytes of one piece from front to back, in stored order. That is cell after
/// cell, each packed with its axes in Grid::order. Cells are the inner chunks in C order; a piece
/// without them is one cell. To separate cells, read or skip them one by one.
///
/// The reader compares each checksum of the format when the last byte that it covers is read. Bytes
/// are unchecked until then. Not thread-safe. The checkpoint and the scratch memory must outlive
/// it.
class PieceReader {
 public:
  virtual ~PieceReader() = default;
  /// Fills `out` with the next bytes. Don't call it again after an error. Throws: corrupt
  /// (checksum, truncated), limit (a decoder that needs more memory than was given), io; each names
  /// array, piece, file and byte range.
  virtual void read(std::span<std::byte> out) = 0;
  /// Skips the next bytes. Whole cells, and bytes without codecs and checksum, cost nothing. Others
  /// are read and dropped. Throws: as read.
  virtual void skip(std::uint64_t bytes) = 0;
};

/// The place of the stored bytes of a piece.
struct PiecePlace {
  /// Path or URL. For a piece that isn't stored, the file that would list it.
  std::string file;
  std::optional<ByteRange> range;  ///< absent if it isn't stored
};

/// A checkpoint of any format, opened for reading. Reads only metadata until a piece is read.
/// Thread-safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual const Catalog& catalog() const = 0;
  /// Returns the number of files that hold the arrays' bytes.
  virtual std::uint64_t data_files() const { return catalog().files.size(); }
  /// Returns whether the piece exists. `piece`: coordinates in the array's grid.
  virtual bool has_piece(std::uint32_t array, const Shape& piece) const = 0;
  /// Returns the place of a piece, for reports. Nothing if the format doesn't know it, or if the
  /// catalog states it.
  virtual std::optional<PiecePlace> find_piece(std::uint32_t /*array*/,
                                               const Shape& /*piece*/) const {
    return std::nullopt;
  }
  /// Opens one piece. The reader uses only `scratch`, which has scratch_bytes(array, steps).
  /// Throws: not_found (missing), io, each naming array, piece and file.
  virtual std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece,
                                                  PieceSteps steps,
                                                  std::span<std::byte> scratch) const = 0;
  /// Returns the scratch memory that a reader of this array's pieces needs. It depends on neither
  /// the size of a piece nor its stored size, except for the index of its inner chunks.
  virtual std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const = 0;
  /// Returns a digest of an object's contents, in hex. Compares the checksums of its bytes.
  /// `reader` reads the catalog's object files. Throws: corrupt, not_found, io.
  virtual std::string object_digest(const ObjectReader& reader, const ObjectInfo& object) const {
    return object_sha256(reader, object);
  }
  /// Returns the heap that it holds while it is open (base/heap.h): names, and places of pieces.
  virtual std::uint64_t heap_bytes() const { return hfshard::heap_bytes(catalog()); }
};

}  // namespace hfshard
