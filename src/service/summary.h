#pragma once

#include <cstddef>

#include "plan/cost/mesh_load.h"
#include "plan/plan.h"

#include "hfshard/report.h"

namespace hfshard {

/// Copies a plan's facts, so that they outlive the plan.
PlanSummary summarise(const Plan& plan);
/// Copies one leaf's facts.
PlannedLeaf planned_leaf(const Plan& plan, std::size_t leaf);
/// Returns the cost of loading a plan, or a checkpoint, on a mesh.
LoadReport load_report(const Layout& layout, const LoadCost& cost);

}  // namespace hfshard
