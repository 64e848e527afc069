#pragma once

#include <cstdint>
#include <functional>

#include "ops/index_map.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A piece of one source that is read at once: elements [begin, begin + length) of the flattened
/// tensor, and the part of the map whose source elements lie in it (source offsets still relative
/// to the whole tensor).
struct Band {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  IndexMap map;
};

/// Elements of a source row, the unit that is hashed and never split: the last axis; the whole
/// tensor when 1-d or 0-d.
std::uint64_t row_length(const Shape& source_shape);

/// Splits every digit of `map` so that none straddles a multiple of `row` on the source side.
/// Throws: internal when a digit cannot be split evenly (patterns follow the source's axes, so none
/// does).
IndexMap split_at_rows(const IndexMap& map, const Shape& source_shape);

/// Cuts `map` (split at rows) into bands of about `band_elements` source elements, never within a
/// row, and calls `visit` for each, in source order. Holes of more than `gap_elements` end a band.
void for_each_band(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
                   std::uint64_t gap_elements, const std::function<void(const Band&)>& visit);

/// Elements in all bands that for_each_band would make, without making them.
std::uint64_t banded_elements(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
                              std::uint64_t gap_elements);

/// Upper bound of Band::length for a source of `numel` elements.
std::uint64_t largest_band(std::uint64_t numel, std::uint64_t row, std::uint64_t band_elements);

/// How one source of a transfer is read for its leaf, and the bytes of every buffer that it takes.
/// The plan counts them and the run cuts them, both from here.
struct BandForm {
  std::uint64_t row = 1;              ///< elements of a source row
  std::uint64_t most = 1;             ///< elements that a band should have
  std::uint64_t gap = 0;              ///< elements between two parts that are read with them
  std::uint64_t raw_bytes = 0;        ///< the band as stored, with Source::view's slack
  std::uint64_t converted_bytes = 0;  ///< as the leaf stores it; 0 if it is moved as it is
  std::uint64_t scale_bytes = 0;      ///< its scales; 0 if it is not coded
  std::uint64_t row_bytes = 0;        ///< a row of the leaf's dtype, gathered
  std::uint64_t scratch_bytes() const noexcept {
    return raw_bytes + converted_bytes + scale_bytes + row_bytes;
  }
};
BandForm band_form(const Transfer& transfer, DType leaf_dtype, const Limits& limits);

/// Calls `visit(part)` for each row of `map` in source order: `part` is the map within one row.
void for_each_row(const IndexMap& map, std::uint64_t row,
                  const std::function<void(const IndexMap& part)>& visit);

}  // namespace hfshard
