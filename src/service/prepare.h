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

/// The sizes of a run: the product's, unless a test brings others.
Limits limits_of(const RunOptions& run);

}  // namespace hfshard
