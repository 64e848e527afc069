#pragma once

#include "catalog/catalog.h"
#include "catalog/format.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Selects the objects that the output keeps: all that --include and --exclude leave, if the target
/// holds objects and every name stays the same. Names the others as left out.
void choose_objects(const Catalog& source, const MappingOptions& options, const Format& target,
                    CompiledModel& model);

}  // namespace hfshard
