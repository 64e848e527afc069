#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "catalog/grid.h"
#include "plan/compile/model.h"

namespace hfshard {

/// How an array of pieces that no unit can take as they come lies in the file that it is unpacked
/// into: as pieces of a finer grid, so that what one reader wants lies together. An axis of which
/// each rule takes one index (the layers of a stack) has pieces of one index, and these are the
/// slowest in the file; along the others a piece is a cell of the source.
struct UnpackedForm {
  std::uint32_t array = 0;  ///< of the catalog
  Grid grid;                ///< no inner chunks; the order within a piece is that of the source
  std::vector<std::uint8_t> file_order;  ///< axes of the pieces, slow to fast; rank entries
  /// One plain row-major tensor instead: of arrays that a decoder reads.
  bool row_major = false;
  /// Where a piece begins, in elements; of the piece counts, where the file ends.
  std::uint64_t piece_begin(const Shape& array_shape, const Shape& piece) const;
  std::uint64_t elements(const Shape& array_shape) const;
};

/// Those of some arrays of a model's source, which are ascending.
std::vector<UnpackedForm> unpacked_forms(const Model& model, std::span<const std::uint32_t> arrays);

/// That of an array; nullptr if it is not among them.
const UnpackedForm* find_form(const std::vector<UnpackedForm>& forms, std::uint32_t array) noexcept;

/// Heap that one holds (base/heap.h).
std::uint64_t heap_bytes(const UnpackedForm& form);

}  // namespace hfshard
