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
/// little-endian. Every checksum that the format carries over what is read whole is compared.
/// Thread-safe. Files are named by paths, so they must stay where they were.
class CheckpointReader {
 public:
  /// Opens the checkpoint that a place means; reads metadata only. Throws: not_found, corrupt,
  /// unsupported, io.
  explicit CheckpointReader(const SourceName& place);
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;
  ~CheckpointReader();

  const CheckpointInfo& info() const noexcept;
  /// Index into CheckpointInfo::arrays of the array with this name. O(log n).
  std::optional<std::size_t> find(std::string_view name) const noexcept;

  /// Whether the piece at a place of its array's grid is there.
  bool has_piece(std::size_t array, const Shape& place) const;
  /// Bytes of a piece: of StoredArray::chunk, packed.
  std::uint64_t piece_bytes(std::size_t array) const;
  /// Reads a whole piece; `out` has piece_bytes. What lies outside of the array has no meaning.
  /// Memory: a cell, and a decoder. Throws: not_found (missing), corrupt, usage (no such place, the
  /// size of `out`), limit, io.
  void read_piece(std::size_t array, const Shape& place, std::span<std::byte> out) const;

  /// Reads rows [begin, begin + n) of the first axis, of which `out` is to hold n, packed; a scalar
  /// is one row. Memory: of an array that is not cut a buffer, else one piece, a cell, and a
  /// decoder. Throws: as read_piece; bad_input, unsupported (a row that is no whole number of
  /// bytes, elements of a cut array that are none).
  void read_rows(std::size_t array, std::uint64_t begin, std::span<std::byte> out) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hfshard
