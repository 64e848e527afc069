#pragma once

#include "bytes/store/store.h"

#include "hfshard/convert.h"
#include "hfshard/plan.h"

namespace hfshard {

/// Refuses files whose headers are too large for any plan within the run's memory, before parsing
/// them. Looks only at local safetensors files, and at eight bytes of each. Throws: limit.
void check_header_size(const StorePath& place, const PlanOptions& options, const RunOptions& run);

}  // namespace hfshard
