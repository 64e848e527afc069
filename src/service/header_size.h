#pragma once

#include <span>

#include "bytes/store/store.h"

#include "hfshard/convert.h"
#include "hfshard/plan.h"

namespace hfshard {

/// Refuses a source whose headers are too large for any plan within the run's memory, before
/// parsing them. Looks only at local files: at eight bytes of each safetensors file, and at the
/// size of a tree's metadata. Throws: limit, as read_step.
void check_header_size(const StorePath& place, const PlanOptions& options, const RunOptions& run);

/// Does the same for checkpoints that a command reads together. `only_seen`: it uses few of the
/// tensors, or makes no plan. A place with steps must be one of its steps. Throws: limit.
void check_header_size(std::span<const StorePath> places, bool only_seen, const RunOptions& run);

}  // namespace hfshard
