#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/digest.h"
#include "ops/transfer.h"
#include "plan/layout/band.h"

namespace hfshard {

/// Hashes the rows of a band. `bytes` has the band's elements in source order in the target dtype.
/// `row_scratch` has room for a row.
class RowHasher {
 public:
  RowHasher(const Transfer& transfer, DType target_dtype);
  /// Adds every row of `map`, a band's map, to `sum`. Its source offsets are relative to the
  /// tensor, unless `stored` gives the places of its rows there.
  void add(const IndexMap& map, std::uint64_t band_begin, std::span<const std::byte> bytes,
           std::span<std::byte> row_scratch, Digest128& sum, RowCursor* stored = nullptr) const;
  /// Returns whether every row of a map is a whole row of the source, in order.
  bool takes_whole_rows(const IndexMap& map) const;
  /// Adds one whole row that begins at an element of the tensor.
  void add_row(std::uint64_t begin, std::span<const std::byte> row, Digest128& sum) const {
    add_block(begin, row, sum);
  }

 private:
  void add_block(std::uint64_t block, std::span<const std::byte> row, Digest128& sum) const;
  std::uint64_t row_ = 1;
  std::size_t element_bytes_ = 1;
  bool one_d_ = false;
};

}  // namespace hfshard
