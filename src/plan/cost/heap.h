#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace hfshard {

/// Heap that a plan holds, its catalog and model included (base/heap.h): the control plane of a
/// run.
std::uint64_t heap_bytes(const Plan& plan);

}  // namespace hfshard
