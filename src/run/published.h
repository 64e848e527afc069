#pragma once

#include "plan/plan.h"
#include "run/commit/staging.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Checks that what a plan has published is still its output: of the same commit, and with all
/// files. Those that it copied must be as in the source. Reads no tensors. Returns whether a commit
/// says that the values are the same, too. Throws: conflict (naming the file that is lost or
/// differs), corrupt, io.
bool check_published(const Plan& plan, const OutPaths& paths, const RunOptions& options);

/// Does the same, and notes that it compared no values, unless the plan's identity or a commit
/// covers them.
void check_published(const Plan& plan, const OutPaths& paths, const RunOptions& options,
                     Reporter& reporter);

/// Returns whether the same run with --resume would find data of its share. Throws: io.
bool has_kept(const Plan& plan, const Format& target, const RunOptions& options);

}  // namespace hfshard
