#pragma once

#include <memory>

#include "run/target.h"

namespace hfshard::target::null {

/// Discards: raw chunks, no metadata, nothing to open. For benches and memory tests.
std::unique_ptr<Target> make_null_target();

}  // namespace hfshard::target::null
