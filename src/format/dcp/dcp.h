#pragma once

#include "catalog/format.h"

namespace hfshard::format::dcp {

/// torch.distributed.checkpoint: a directory with `.metadata` and `.distcp` files (FORMAT.md).
const Format& dcp_format();

}  // namespace hfshard::format::dcp
