#pragma once

#include "catalog/format.h"

namespace hfshard::format::orbax {

/// Returns the format of Orbax checkpoints: zarr3 arrays in an OCDBT database (FORMAT.md).
const Format& orbax_format();

}  // namespace hfshard::format::orbax
