#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.h"
#include "plan/plan.h"

namespace hfshard {

/// Returns whether an array's name belongs to an optimizer state in checkpoints of PyTorch,
/// torchtitan, accelerate or MaxText.
bool is_optimizer_state(std::string_view name);
/// Returns the same for names of any depth, and for the moments that PyTorch's optimizers store
/// under a parameter's name.
bool is_state_anywhere(std::string_view name);

/// Returns whether a name can be a parameter's: it has keys and isn't a training state's.
bool may_be_parameter(const std::string& name);
/// Counts the parameters that --include and --exclude leave out of a tree that keeps its names.
std::uint64_t parameters_left_out(const CompiledModel& model, const Catalog& tree);

/// Returns why loaders may refuse a plan's output, for PlanSummary::warnings.
std::vector<std::string> load_doubts(const Plan& plan);

/// Refuses outputs that no loader takes, unless the user asked for them. These are optimizer states
/// in a Hugging Face model, and chunks so small that the output is mostly padding. Throws:
/// bad_input, limit.
void refuse_unloadable(const Plan& plan);

}  // namespace hfshard
