#pragma once

#include <cstdint>

#include "catalog/array.h"
#include "ops/transfer.h"

namespace hfshard {

/// Elements of a source row: the last axis; the whole tensor when 1-d or 0-d.
std::uint64_t row_length(const Shape& source_shape);
/// Of a rule's sources, the unit that is hashed and never split: Transfer::row, or that.
std::uint64_t row_length(const Transfer& transfer);

/// Splits every digit of `map` so that none straddles a multiple of the row on the source side.
/// Throws: internal when a digit cannot be split evenly (patterns follow the source's axes, so none
/// does).
IndexMap split_at_rows(const IndexMap& map, const Shape& source_shape);
/// The same of a rule's map, at its own rows.
IndexMap split_at_rows(const Transfer& transfer);

/// Where a box of a leaf may begin and end along each axis so that it holds whole rows of a rule's
/// sources: at multiples, and at the leaf's end. 1: anywhere.
Shape row_window(const Leaf& leaf, const Transfer& transfer);

/// Makes a window the whole axis where the places of a rule in its leaf are no multiples of it.
void close_misplaced(const Leaf& leaf, const Transfer& transfer, Shape& window);

/// What the rows of a leaf's window may have before they are shortened.
inline constexpr std::uint64_t kMostWindowBytes = std::uint64_t{64} << 20;
/// Shortens the rows of rules whose window has more: of a transposed matrix a whole row needs all
/// of the leaf. Part of the digests, which are of rows.
void shorten_rows(CompiledModel& model, std::uint64_t most_bytes = kMostWindowBytes);

}  // namespace hfshard
