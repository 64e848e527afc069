#pragma once

#include <memory>

#include "run/target.h"

namespace hfshard::target::orbax {

/// Orbax checkpoints: zarr3 arrays in an OCDBT database (FORMAT.md).
std::unique_ptr<Target> make_orbax_target();

}  // namespace hfshard::target::orbax
