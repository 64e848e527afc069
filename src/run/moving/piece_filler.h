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
#include "run/moving/cells.h"
#include "run/moving/sources.h"
#include "run/moving/stage_meter.h"
#include "run/moving/unit_parts.h"

namespace hfshard {

/// Fills the part of a unit whose source is cut into pieces: stored ones, all of which the unit
/// holds (plan/layout/piece_window.h), so that each is read once, from front to back; or parts of
/// those of an array that is split.
class PieceFiller {
 public:
  PieceFiller(const Layout& layout, const SourceReads& sources, StageMeter* meter)
      : layout_(layout), sources_(sources), meter_(meter) {}
  /// Moves what the part's pieces hold into the unit's region, and adds its rows to `sum`, if there
  /// is one.
  /// `scratch` has the PieceBands' bytes. Returns how many finite values became infinite. Throws:
  /// as Checkpoint::open_piece and PieceReader::read, with the rule.
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
