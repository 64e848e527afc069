#pragma once

#include "plan/plan.h"

namespace hfshard {

/// The parts of a plan, for tests that need a plan that no options give. The product never changes
/// a plan.
struct PlanParts {
  explicit PlanParts(const Plan& plan)
      : catalog(plan.catalog()),
        model(plan.model()),
        cut{plan.grids(), plan.units()},
        limits(plan.limits()),
        packed(plan.is_packed()),
        files(plan.files()),
        facts{plan.options(), plan.rules(), plan.meshes(), plan.not_linked(), plan.identity()} {}

  Plan build() const {
    return {Layout(make_model(catalog, model), cut, limits, packed, files), facts};
  }

  Catalog catalog;
  CompiledModel model;
  CutLeaves cut;
  Limits limits;
  bool packed;
  FileLayout files;
  PlanFacts facts;
};

}  // namespace hfshard
