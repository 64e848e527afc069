#pragma once

#include <memory>

#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

namespace hfshard::format {

/// Returns a checkpoint whose arrays are one plain piece each (TensorInfo::is_whole).
std::unique_ptr<Checkpoint> plain_checkpoint(Catalog catalog);

}  // namespace hfshard::format
