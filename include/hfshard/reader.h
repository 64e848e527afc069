#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "hfshard/checkpoint.h"
#include "hfshard/dtype.h"
#include "hfshard/hub.h"

namespace hfshard {

/// Reads the elements of a checkpoint of any format into the caller's memory: packed, row-major,
/// little-endian. Compares the format's checksums for all data that is read whole. Thread-safe.
/// Files are opened by path when they are needed, so don't move them.
class CheckpointReader {
 public:
  /// Opens a checkpoint. Reads metadata only. Throws: not_found, corrupt, unsupported, io.
  explicit CheckpointReader(const SourceName& place);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const CheckpointInfo& info() const noexcept;
  /// Returns the index into CheckpointInfo::arrays of the array with this name. O(log n).
  std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// Returns whether a piece exists. `place`: coordinates in the array's grid.
  bool has_piece(std::size_t array, const Shape& place) const;
  /// Returns the bytes of a piece: those of StoredArray::chunk, packed.
  std::uint64_t piece_bytes(std::size_t array) const;
  /// Reads a whole piece; `out` has piece_bytes. Elements outside of the array have no meaning.
  /// Memory: a cell, and a decoder. Throws: not_found (missing), corrupt, usage (no such place, the
  /// size of `out`), limit, io.
  void read_piece(std::size_t array, const Shape& place, std::span<std::byte> out) const;

  /// Reads rows [begin, begin + n) of the first axis, packed; `out` has the size of n rows. A
  /// scalar is one row. Memory: a buffer for a plain array, else one piece, a cell, and a decoder.
  /// Throws: as read_piece; bad_input, unsupported (rows or elements that aren't whole bytes).
  void read_rows(std::size_t array, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hfshard
