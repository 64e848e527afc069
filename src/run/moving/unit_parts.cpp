#include "run/moving/unit_parts.h"

#include "plan/layout/band.h"

namespace hfshard {
namespace {

Box box_of(const Plan& plan, const UnitRef& ref) {
  const Group& group = plan.group_of(ref);
  const UnitForm& form = plan.units[group.leaf];
  const Shape origin = unit_origin(form, group.loop_index, ref.unit);
  return unit_box(plan.model.leaves[group.leaf], plan.grids[group.leaf], form, origin);
}

}  // namespace

UnitPartCursor::UnitPartCursor(const Plan& plan, const UnitRef& ref)
    : plan_(plan),
      leaf_(plan.model.leaves[plan.group_of(ref).leaf]),
      box_(box_of(plan, ref)),
      transfers_(plan.transfers_of(plan.group_of(ref).leaf)) {}

const UnitPart* UnitPartCursor::next() {
  for (;;) {
    if (const SourcePart* found = sources_ ? sources_->next() : nullptr) {
      part_.source = found->source;
      part_.map = found->map;
      return &part_;
    }
    if (used_ == transfers_.size()) return nullptr;
    part_.transfer = transfers_[used_++];
    const Transfer& transfer = plan_.model.transfers[part_.transfer];
    sources_.emplace(transfer, split_at_rows(transfer.map, transfer.source_shape), leaf_, box_);
  }
}

}  // namespace hfshard
