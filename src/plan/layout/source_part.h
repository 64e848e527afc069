#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/index_map.h"
#include "ops/transfer.h"

namespace hfshard {

/// The part of a box of a leaf that comes from one source of a transfer.
struct SourcePart {
  std::uint64_t source = 0;  ///< index into Transfer::sources
  IndexMap map;              ///< offsets in the whole source and leaf
};

/// Finds the sources of a transfer that reach into a box of its leaf, in source order. Each has the
/// part of `map` whose target elements are in the box. `map` is the transfer's, with its digits
/// split as the caller needs them. No digit may span two axes of the leaf. Transfer and leaf must
/// outlive the cursor.
class SourcePartCursor {
 public:
  SourcePartCursor(const Transfer& transfer, IndexMap map, const Leaf& leaf, Box box);
  /// Returns the next part, valid until the next call. Null at the end.
  const SourcePart* next();

 private:
  struct LoopRange {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  LoopRange range_of(const Loop& loop, const Shape& strides) const;
  bool advance();

  const Transfer& transfer_;
  const Leaf& leaf_;
  IndexMap map_;
  Box box_;
  std::vector<LoopRange> ranges_;  // of each loop, within the box
  std::vector<std::uint64_t> at_;
  bool at_end_ = false;           // of the loops
  std::vector<IndexMap> pieces_;  // of the source at `at_`
  std::size_t used_ = 0;          // of the pieces
  SourcePart part_;
};

}  // namespace hfshard
