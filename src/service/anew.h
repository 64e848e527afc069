#pragma once

#include "bytes/store/store.h"
#include "plan/compile/compile_model.h"
#include "service/recorded.h"
#include "service/tree_source.h"

#include "hfshard/plan.h"

namespace hfshard {

/// Adds the recorded config, tokenizer and other files of the model that a tree was made from.
void carry_recorded(TreeSource& tree, const Recorded& recorded);

/// Compiles a tree that keeps its names and shapes. The axes come from --axes, a record, or the
/// model of --config. Throws: bad_input (the config of another model), as compile_same.
CompiledModel compile_anew(TreeSource& tree, const StorePath& place, const PlanOptions& options);

}  // namespace hfshard
