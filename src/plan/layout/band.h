#pragma once

#include <array>
#include <cstdint>

#include "ops/index_map.h"
#include "ops/source_rows.h"
#include "ops/transfer.h"
#include "plan/layout/limits.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// A part of one source that is read at once: elements [begin, begin + length) of the flattened
/// tensor. The map is the part whose source elements are in it. Its source offsets are still those
/// of the whole tensor.
struct Band {
  std::uint64_t begin = 0;
  std::uint64_t length = 0;
  IndexMap map;
};

/// Counts through digits, the first one slowest. Tracks the current offsets on both sides.
class DigitCounter {
 public:
  DigitCounter() = default;
  DigitCounter(std::uint64_t src_base, std::uint64_t dst_base) : src_(src_base), dst_(dst_base) {}
  void push_back(const Digit& digit) { digits_.push_back(digit); }
  std::uint64_t src() const noexcept { return src_; }
  std::uint64_t dst() const noexcept { return dst_; }
  /// Moves to the next combination. After the last one, returns false and is at the first again.
  bool advance() noexcept;

 private:
  DigitList digits_;
  std::array<std::uint64_t, DigitList::kMax> index_{};
  std::uint64_t src_ = 0;
  std::uint64_t dst_ = 0;
};

/// Makes the bands of a map that is split at rows, in source order. A band has about
/// `band_elements` source elements, or one longer row, but never part of a row. Holes of more than
/// `gap_elements` end a band.
class BandCursor {
 public:
  BandCursor(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
             std::uint64_t gap_elements);
  /// Returns the next band, valid until the next call. Null at the end.
  const Band* next() noexcept;
  /// Returns the number of elements in all bands, without making them.
  std::uint64_t elements() const noexcept { return elements_; }

 private:
  // A band is as many steps of one digit as fit, with all faster digits.
  struct Steps {
    std::uint64_t in_all = 1;
    std::uint64_t in_band = 1;  // the most in a band
    std::uint64_t used = 0;     // since the slower digits last moved
    std::uint64_t step_elements = 0;
    std::uint64_t span_elements = 1;  // of one step
  };
  std::uint64_t length_of(std::uint64_t steps) const noexcept {
    return steps_.span_elements + (steps - 1) * steps_.step_elements;
  }
  bool at_end_ = true;
  bool has_steps_ = false;  // false: a band is a row
  Steps steps_;
  DigitCounter counter_;  // at the start of each band
  std::uint64_t elements_ = 0;
  Band band_;
};

/// Makes the rows of a map that is split at rows, in source order, with the map in each.
class RowCursor {
 public:
  RowCursor(const IndexMap& map, std::uint64_t row);
  /// Returns the next row's part, valid until the next call. Null at the end.
  const IndexMap* next() noexcept;

 private:
  bool at_end_ = true;
  DigitCounter counter_;  // at the start of each row's part
  IndexMap part_;
};

/// Returns the map without gaps between its rows: the k-th row of `map` in source order begins at k
/// rows. Its bands are consecutive whole rows.
IndexMap without_holes(const IndexMap& map, std::uint64_t row);

/// Returns the most elements of a leaf that are gathered for one source row: those of the row, and
/// their repeats in it.
std::uint64_t gathered_row(const Transfer& transfer);

/// The way of reading one source of a transfer for its leaf, with the sizes of all buffers. The
/// plan counts them and the run allocates them, both from here.
struct BandForm {
  std::uint64_t row = 1;   ///< elements of a source row
  std::uint64_t most = 1;  ///< elements that a band should have
  std::uint64_t gap = 0;   ///< the largest gap that is read
  /// The band as stored, with Source::view's slack.
  std::uint64_t raw_bytes = 0;
  std::uint64_t converted_bytes = 0;  ///< in the leaf's dtype; 0: not converted
  std::uint64_t scale_bytes = 0;      ///< its scales; 0: not coded
  std::uint64_t zero_bytes = 0;       ///< its zero points
  std::uint64_t row_bytes = 0;        ///< one gathered row, in the leaf's dtype
  std::uint64_t scratch_bytes() const noexcept {
    return raw_bytes + converted_bytes + scale_bytes + zero_bytes + row_bytes;
  }
};
BandForm band_form(const Transfer& transfer, DType leaf_dtype, const Limits& limits);

}  // namespace hfshard
