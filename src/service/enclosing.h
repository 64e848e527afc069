#pragma once

#include <string>

#include "plan/plan.h"

namespace hfshard {

/// Refuses an output that is missing or empty, in a step of a checkpoint, and one that would count
/// as a step of it. Loaders would take its files for a part of that checkpoint. Throws: conflict.
void refuse_in_checkpoint(const Plan& plan, const std::string& out);

}  // namespace hfshard
