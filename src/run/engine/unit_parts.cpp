#include "run/engine/unit_parts.h"

#include "plan/layout/band.h"

namespace hfshard {

Box box_of(const Layout& layout, const UnitRef& ref) {
  const Group& group = layout.group_of(ref);
  const UnitForm& form = layout.units()[group.leaf];
  const Shape origin = unit_origin(form, group.loop_index, ref.unit);
  return unit_box(layout.model().leaves[group.leaf], layout.grids()[group.leaf], form, origin);
}

UnitPartCursor::UnitPartCursor(const Layout& layout, const UnitRef& ref)
    : layout_(layout),
      leaf_(layout.model().leaves[layout.group_of(ref).leaf]),
      box_(box_of(layout, ref)),
      transfers_(layout.model().transfers_of(layout.group_of(ref).leaf)) {}

const UnitPart* UnitPartCursor::next() {
  for (;;) {
    if (const SourcePart* found = sources_ ? sources_->next() : nullptr) {
      part_.source = found->source;
      part_.map = found->map;
      return &part_;
    }
    if (used_ == transfers_.size()) return nullptr;
    part_.transfer = transfers_[used_++];
    const Transfer& transfer = layout_.model().transfers[part_.transfer];
    sources_.emplace(transfer, split_at_rows(transfer), leaf_, box_);
  }
}

}  // namespace hfshard
