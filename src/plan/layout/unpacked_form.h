#pragma once

#include <cstdint>
#include <vector>

#include "catalog/grid.h"
#include "ops/index_map.h"

namespace hfshard {

/// How an array of pieces that no unit can take as they come lies in the file that it is unpacked
/// into: as pieces of a finer grid, so that what one reader wants lies together. An axis of which
/// each rule takes one index (the layers of a stack) has pieces of one index, and these are the
/// slowest in the file; along the others a piece is a cell of the source. Of a long array, any
/// bytes of whose stored pieces can be read, each such index, or a few of them, is a part that is
/// unpacked by itself.
struct UnpackedForm {
  std::uint32_t array = 0;  ///< of the catalog
  Grid grid;                ///< no inner chunks; the order within a piece is that of the source
  std::vector<std::uint8_t> file_order;  ///< axes of the pieces, slow to fast; rank entries
  /// One plain row-major tensor instead: of arrays that a decoder reads.
  bool row_major = false;
  std::uint8_t parted = 0;  ///< of file_order, the first axes: each index of them is a part
  std::uint64_t span = 1;   ///< of the last one of these, so many indices are
  std::uint32_t first = 0;  ///< number of its first part among those of all forms
  /// Whether each index of an axis, or a few of them, is a part.
  bool is_parted(std::size_t axis) const;
  /// Parts of an array of this shape.
  std::uint64_t parts(const Shape& array_shape) const;
  /// The part that has an element, given by its place in the flattened array.
  std::uint64_t part_of(const Shape& array_shape, std::uint64_t element) const;
  /// What a part holds.
  Box box_of(const Shape& array_shape, std::uint64_t part) const;
  /// Elements of a part's file.
  std::uint64_t elements(const Shape& array_shape) const;
  /// Where a piece begins in it.
  std::uint64_t piece_begin(const Shape& array_shape, const Shape& piece) const;

 private:
  std::uint64_t span_along(std::size_t k) const noexcept;
  std::uint64_t parts_along(const Shape& array_shape, std::size_t k) const;
};

/// That of an array; nullptr if it is not among them.
const UnpackedForm* find_form(const std::vector<UnpackedForm>& forms, std::uint32_t array) noexcept;
/// That of a part, by its number among all.
const UnpackedForm& form_of_part(const std::vector<UnpackedForm>& forms, std::uint32_t number);

/// Heap that one holds (base/heap.h).
std::uint64_t heap_bytes(const UnpackedForm& form);

}  // namespace hfshard
