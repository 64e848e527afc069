#pragma once

#include <cstdint>

#include "catalog/array.h"
#include "ops/transfer.h"

namespace hfshard {

/// Returns the elements of a source row: the last axis, or the whole tensor when 1-d or 0-d.
std::uint64_t row_length(const Shape& source_shape);
/// Returns the unit of a rule's sources that is hashed and never split: Transfer::row, or the
/// above.
std::uint64_t row_length(const Transfer& transfer);

/// Splits every digit of `map` so that none straddles a multiple of the row on the source side.
/// Throws: internal if a digit can't be split evenly. Patterns follow the source's axes, so none
/// does.
IndexMap split_at_rows(const IndexMap& map, const Shape& source_shape);
/// Splits a rule's map at its own rows.
IndexMap split_at_rows(const Transfer& transfer);

/// Returns steps for cutting a leaf into boxes that have whole rows of a rule's sources. A box can
/// begin and end at their multiples, and at the leaf's end. 1 means anywhere.
Shape row_window(const Leaf& leaf, const Transfer& transfer);

/// Makes a window the whole axis if the places of a rule in its leaf aren't multiples of it.
void close_misplaced(const Leaf& leaf, const Transfer& transfer, Shape& window);

/// The most bytes of a leaf's window. Beyond it, rows are shortened.
inline constexpr std::uint64_t kMostWindowBytes = std::uint64_t{64} << 20;
/// Shortens the rows of rules with a larger window. In a transposed matrix, a whole row needs the
/// whole leaf. Digests depend on this, since they cover rows.
void shorten_rows(CompiledModel& model, std::uint64_t most_bytes = kMostWindowBytes);

}  // namespace hfshard
