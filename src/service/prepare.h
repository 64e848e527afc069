#pragma once

#include <string>

#include "catalog/format.h"
#include "plan/layout/limits.h"
#include "plan/plan.h"
#include "service/step.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Opens the source and plans it. Throws: unsupported (a format that can't link), as open_catalog,
/// compile_model and build_plan.
Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const Limits& limits);
/// Does the same for a run, after a check that its memory suffices for the source's headers.
/// Throws: as check_header_size and make_plan.
Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const RunOptions& run);

/// Returns a format's layout for a tree, whose item and steps may have their own names.
FileLayout layout_of(const Format& target, const TreeOptions& tree);

/// Returns the options with a target. The user's choice comes first. A tree that keeps its names
/// gets the source's format and the scheme of its loaders; others get the default. Throws: usage (a
/// format that can't be written), unsupported, io.
PlanOptions with_target(const StorePath& source, const PlanOptions& options);

/// Returns the options with the step to read, so that a later step of the root changes nothing.
PlanOptions with_step(const StepChoice& step, PlanOptions options);

/// Names the dims of a model's leaves as its format's rules do (FileLayout::axis_rules), if nothing
/// else names them.
void take_axis_rules(const FileLayout& files, CompiledModel& model);

/// Returns the sizes of a run: the product's, or those of a test.
Limits limits_of(const RunOptions& run);

}  // namespace hfshard
