#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "catalog/checkpoint.h"

namespace hfshard {

/// Reads a whole piece row-major, for any stored order and inner chunks. `out` is packed in the
/// shape of the grid's chunk. `scratch` has row_major_scratch_bytes of the array. If the stored
/// form is row-major, reads directly into `out`; otherwise through one cell. Throws: as
/// Checkpoint::open_piece and PieceReader::read.
void read_row_major(const Checkpoint& checkpoint, std::uint32_t array, const Shape& piece,
                    std::span<std::byte> out, std::span<std::byte> scratch);
std::uint64_t row_major_scratch_bytes(const Checkpoint& checkpoint, std::uint32_t array);

}  // namespace hfshard
