#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "catalog/catalog.h"

namespace hfshard {

/// In what steps a piece will be read, which decides how much memory its decoder needs.
enum class PieceSteps : std::uint8_t {
  whole_cells,  ///< of cells: whole inner chunks, or the whole piece where it has none
  any,          ///< of any length
};

/// The bytes of one piece from front to back, decoded, in the order in which they are stored: cell
/// after cell (inner chunks in C order; a piece without them is one cell), each packed with its
/// axes in Grid::order. Cells are no pieces of their own, since they share an index and a place;
/// who wants them apart reads or skips cell by cell.
///
/// Every checksum that the format carries is compared when the last byte of what it covers was
/// read, in however many steps; who stops before has bytes that nobody checked. Not thread-safe;
/// lives no longer than its checkpoint and its scratch.
class PieceReader {
 public:
  virtual ~PieceReader() = default;
  /// Fills `out` with the next bytes. Throws: corrupt (checksum, truncated), limit (a decoder that
  /// needs more memory than was given), io; each names array, piece, file and byte range. After an
  /// error there is nothing more to read.
  virtual void read(std::span<std::byte> out) = 0;
  /// Passes over the next bytes. Whole cells, and bytes that are neither coded nor under a
  /// checksum, cost nothing; others are read and dropped. Throws: as read.
  virtual void skip(std::uint64_t bytes) = 0;
};

/// Where the stored bytes of a piece are.
struct PiecePlace {
  std::string file;  ///< path or URL; of one that is not stored, what would tell of it
  std::optional<ByteRange> range;  ///< nothing if it is not stored
};

/// A checkpoint of some format, opened for reading: metadata only until a piece is read.
/// Thread-safe.
class Checkpoint {
 public:
  virtual ~Checkpoint() = default;
  virtual const Catalog& catalog() const = 0;
  /// How many files hold the arrays' bytes.
  virtual std::uint64_t data_files() const { return catalog().files.size(); }
  /// Whether the piece at a place of its array's grid is there.
  virtual bool has_piece(std::uint32_t array, const Shape& piece) const = 0;
  /// Where it is, for reports; nothing if the format does not tell, or the catalog does.
  virtual std::optional<PiecePlace> find_piece(std::uint32_t /*array*/,
                                               const Shape& /*piece*/) const {
    return std::nullopt;
  }
  /// A reader of one piece, which uses only `scratch` (scratch_bytes of the array and the steps)
  /// beside what it fills. Throws: not_found (missing), io, each naming array, piece and file.
  virtual std::unique_ptr<PieceReader> open_piece(std::uint32_t array, const Shape& piece,
                                                  PieceSteps steps,
                                                  std::span<std::byte> scratch) const = 0;
  /// Largest scratch that a reader of this array's pieces needs. It grows neither with the piece
  /// nor with what is stored, but for the index of its inner chunks.
  virtual std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps steps) const = 0;
  /// Heap that it holds while it is open (base/heap.h): names, and where pieces are.
  virtual std::uint64_t heap_bytes() const { return hfshard::heap_bytes(catalog()); }
};

}  // namespace hfshard
