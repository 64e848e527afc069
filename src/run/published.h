#pragma once

#include "plan/plan.h"
#include "run/commit/staging.h"

namespace hfshard {

/// Checks that what a plan has published is still its output: of the same commit, with all files.
/// Reads no data. Throws: conflict (naming a file that is lost), corrupt, io.
void check_published(const Plan& plan, const OutPaths& paths);

}  // namespace hfshard
