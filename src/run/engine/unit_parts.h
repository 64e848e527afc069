#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "ops/transfer.h"
#include "plan/layout/layout.h"
#include "plan/layout/source_part.h"

namespace hfshard {

/// Returns the elements of the leaf that a unit has.
Box box_of(const Layout& layout, const UnitRef& ref);

/// The part of one rule for one unit: source tensor and map, split at rows. Target offsets are in
/// the whole leaf.
struct UnitPart {
  std::uint32_t transfer = 0;
  std::uint64_t source = 0;  ///< index into Transfer::sources
  IndexMap map;
};

/// Makes the parts of a unit, in source order of each rule. The layout must outlive the cursor.
class UnitPartCursor {
 public:
  UnitPartCursor(const Layout& layout, const UnitRef& ref);
  /// Returns the next part, valid until the next call. Null at the end.
  const UnitPart* next();

 private:
  const Layout& layout_;
  const Leaf& leaf_;
  Box box_;
  std::span<const std::uint32_t> transfers_;
  std::size_t used_ = 0;                     // of the transfers
  std::optional<SourcePartCursor> sources_;  // of the last transfer
  UnitPart part_;
};

}  // namespace hfshard
