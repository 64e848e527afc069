#pragma once

#include <string>

#include "catalog/format.h"
#include "plan/layout/limits.h"
#include "plan/plan.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Opens the source and plans it. Throws: unsupported (a format that cannot link), and what
/// open_catalog, compile_model and build_plan throw.
Plan make_plan(const StorePath& source, const PlanOptions& options, const Format& target,
               const Limits& limits);

/// The options with a target: the one that is named, of a tree that stays the same the source's own
/// with the scheme of its loaders, else the default one. Throws: usage (a format that is not
/// written), unsupported, io.
PlanOptions with_target(const StorePath& source, const PlanOptions& options);

/// Where nothing says what the dims of a model's leaves mean, names them as the rules of its format
/// do (FileLayout::axis_rules), which the model takes.
void take_axis_rules(const FileLayout& files, CompiledModel& model);

/// The sizes of a run: the product's, unless a test brings others.
Limits limits_of(const RunOptions& run);

}  // namespace hfshard
