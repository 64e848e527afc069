#pragma once

#include <cstddef>

#include "plan/cost/mesh_load.h"
#include "plan/plan.h"

#include "hfshard/report.h"

namespace hfshard {

/// What a plan says, for people and programs: copies, so that it outlives the plan.
PlanSummary summarise(const Plan& plan);
/// One of its leaves.
PlannedLeaf planned_leaf(const Plan& plan, std::size_t leaf);
/// What loading a plan, or a checkpoint, on a mesh costs.
LoadReport load_report(const Layout& layout, const LoadCost& cost);

}  // namespace hfshard
