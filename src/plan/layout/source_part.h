#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/index_map.h"
#include "ops/transfer.h"

namespace hfshard {

/// What one source of a transfer gives to a box of its leaf.
struct SourcePart {
  std::uint64_t source = 0;  ///< index into Transfer::sources
  IndexMap map;              ///< offsets are those of the whole source and the whole leaf
};

/// The sources of a transfer that reach into a box of its leaf, in source order, each with a part
/// of `map` whose target elements lie in the box. `map` is the transfer's, its digits split as the
/// caller needs them; none may span two axes of the leaf. Transfer and leaf must outlive the
/// cursor.
class SourcePartCursor {
 public:
  SourcePartCursor(const Transfer& transfer, IndexMap map, const Leaf& leaf, Box box);
  /// The next part, valid until the next call; nullptr at the end.
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
  std::vector<LoopRange> ranges_;  // of each loop, the indices that reach into the box
  std::vector<std::uint64_t> at_;
  bool at_end_ = false;           // of the loops
  std::vector<IndexMap> pieces_;  // of the source that `at_` stands on
  std::size_t used_ = 0;          // of them
  SourcePart part_;
};

}  // namespace hfshard
