#pragma once

#include <array>
#include <cstdint>

#include "ops/index_map.h"
#include "ops/source_rows.h"
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

/// Counts through digits, the first one slowest: the offsets on both sides of where it stands.
class DigitCounter {
 public:
  DigitCounter() = default;
  DigitCounter(std::uint64_t src_base, std::uint64_t dst_base) : src_(src_base), dst_(dst_base) {}
  void push_back(const Digit& digit) { digits_.push_back(digit); }
  std::uint64_t src() const noexcept { return src_; }
  std::uint64_t dst() const noexcept { return dst_; }
  /// Goes to the next combination; after the last one to the first again, and returns false.
  bool advance() noexcept;

 private:
  DigitList digits_;
  std::array<std::uint64_t, DigitList::kMax> index_{};
  std::uint64_t src_ = 0;
  std::uint64_t dst_ = 0;
};

/// The bands of a map that is split at rows, in source order: about `band_elements` source elements
/// each, or one row where that is longer, never a part of one. Holes of more than `gap_elements`
/// end a band.
class BandCursor {
 public:
  BandCursor(const IndexMap& map, std::uint64_t row, std::uint64_t band_elements,
             std::uint64_t gap_elements);
  /// The next band, valid until the next call; nullptr at the end.
  const Band* next() noexcept;
  /// Elements in all bands, counted without making them.
  std::uint64_t elements() const noexcept { return elements_; }

 private:
  // A band is as many steps of one digit as fit, and all of the faster digits.
  struct Steps {
    std::uint64_t in_all = 1;
    std::uint64_t in_band = 1;  // at most
    std::uint64_t used = 0;     // by the bands since the slower digits moved
    std::uint64_t step_elements = 0;
    std::uint64_t span_elements = 1;  // of one step
  };
  std::uint64_t length_of(std::uint64_t steps) const noexcept {
    return steps_.span_elements + (steps - 1) * steps_.step_elements;
  }
  bool at_end_ = true;
  bool has_steps_ = false;  // else a band is a row
  Steps steps_;
  DigitCounter counter_;  // where the bands begin
  std::uint64_t elements_ = 0;
  Band band_;
};

/// The rows of a map that is split at rows, in source order: the map within each.
class RowCursor {
 public:
  RowCursor(const IndexMap& map, std::uint64_t row);
  /// The next row's part, valid until the next call; nullptr at the end.
  const IndexMap* next() noexcept;

 private:
  bool at_end_ = true;
  DigitCounter counter_;  // where the rows' parts begin
  IndexMap part_;
};

/// The same map with nothing between its rows: the k-th row of `map` in source order begins at k
/// rows. Bands of it are whole rows one behind the other.
IndexMap without_holes(const IndexMap& map, std::uint64_t row);

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

}  // namespace hfshard
