#pragma once

#include <cstdint>
#include <vector>

#include "catalog/grid.h"
#include "ops/index_map.h"

namespace hfshard {

/// The form of an array that is unpacked into a file, since its pieces feed several units. The file
/// has a finer grid, so that each reader's elements are together. If each rule takes one index of
/// an axis (the layers of a stack), pieces have one index of it. Such axes are the slowest in the
/// file. Along other axes, a piece is a cell of the source. Long arrays have several parts if any
/// bytes of their stored pieces can be read. Each part has one or a few indices of such axes, and
/// is unpacked alone.
struct UnpackedForm {
  std::uint32_t array = 0;  ///< of the catalog
  /// Has no inner chunks. The order within a piece is the source's.
  Grid grid;
  std::vector<std::uint8_t> file_order;  ///< axes of pieces, slow to fast
  /// The file has one plain row-major tensor, since a decoder reads it.
  bool row_major = false;
  /// The first axes in file_order, for which each index is a part.
  std::uint8_t parted = 0;
  std::uint64_t span = 1;   ///< indices of the last one per part
  std::uint32_t first = 0;  ///< its first part among all forms'
  /// Returns whether each index of an axis, or a few of them, is a part.
  bool is_parted(std::size_t axis) const;
  /// Returns the number of parts of an array with this shape.
  std::uint64_t parts(const Shape& array_shape) const;
  /// Returns the part with an element, given by its place in the flattened array.
  std::uint64_t part_of(const Shape& array_shape, std::uint64_t element) const;
  /// Returns the box of a part.
  Box box_of(const Shape& array_shape, std::uint64_t part) const;
  /// Returns the elements of a part's file.
  std::uint64_t elements(const Shape& array_shape) const;
  /// Returns the start of a piece in it.
  std::uint64_t piece_begin(const Shape& array_shape, const Shape& piece) const;

 private:
  std::uint64_t span_along(std::size_t k) const noexcept;
  std::uint64_t parts_along(const Shape& array_shape, std::size_t k) const;
};

/// Returns the form of an array, or nullptr.
const UnpackedForm* find_form(const std::vector<UnpackedForm>& forms, std::uint32_t array) noexcept;
/// Returns the form of a part, by its number among all.
const UnpackedForm& form_of_part(const std::vector<UnpackedForm>& forms, std::uint32_t number);

/// Returns the heap bytes of one form (base/heap.h).
std::uint64_t heap_bytes(const UnpackedForm& form);

}  // namespace hfshard
