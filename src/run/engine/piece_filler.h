#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/digest.h"
#include "catalog/checkpoint.h"
#include "plan/layout/layout.h"
#include "run/engine/cells.h"
#include "run/engine/sources.h"
#include "run/engine/stage_meter.h"
#include "run/engine/unit_parts.h"

namespace hfshard {

/// Fills the part of a unit whose source is cut into pieces. The unit has all of a stored piece
/// (plan/layout/piece_window.h), so each is read once, from front to back. For a split array, it
/// reads parts of its pieces.
class PieceFiller {
 public:
  PieceFiller(const Layout& layout, const SourceReads& sources, StageMeter* meter)
      : layout_(layout), sources_(sources), meter_(meter) {}
  /// Moves the elements of the part's pieces into the unit's region. Adds its rows to `sum`, unless
  /// it is null. `scratch` has the PieceBands' bytes. Returns how many finite values became
  /// infinite. Throws: as Checkpoint::open_piece and PieceReader::read, with the rule.
  std::uint64_t fill(const UnitRef& ref, const UnitPart& part, const std::vector<Cell>& cells,
                     std::span<std::byte> region, std::span<std::byte> scratch,
                     Digest128* sum) const;

 private:
  std::function<std::unique_ptr<PieceReader>(const Shape& piece)> open_unpacked(
      const UnpackedForm& form, const Transfer& transfer) const;

  const Layout& layout_;
  SourceReads sources_;
  StageMeter* meter_;
};

}  // namespace hfshard
