#pragma once

#include "base/json.h"

#include "hfshard/plan.h"

namespace hfshard {

/// Every byte-affecting option, as it enters the plan id, the staging directory and the manifest.
Json options_json(const PlanOptions& options);
/// The reverse, so that `finalize` and `verify` plan as `convert` did. Throws: bad_input.
PlanOptions options_from_json(const Json& json);

}  // namespace hfshard
