#pragma once

#include <string>

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/commit/staging.h"

#include "hfshard/convert.h"
#include "hfshard/error.h"

/// A root: an output with several steps of one model, and files beside them that belong to all.
namespace hfshard {

/// Returns the conflict of a root whose `directory` has the files of another model.
Error other_model(const std::string& directory);
/// Returns whether a root has a step that isn't the plan's. Its record describes the files beside
/// it.
bool has_other_steps(const Plan& plan, const Format& target, const OutPaths& paths);
/// Refuses a root of another run or another model, as far as sizes and config.json tell. Other
/// bytes are compared before the output is published. With --overwrite, a root without other steps
/// can get another model, and one with them only more files. Throws: conflict.
void check_root(const Plan& plan, const Format& target, const RunOptions& options,
                const OutPaths& paths);

}  // namespace hfshard
