#pragma once

#include "catalog/catalog.h"
#include "plan/compile/model.h"
#include "service/recorded.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns whether a mapping decodes codes.
bool was_coded(const CompiledModel& forward);

/// Compiles the export of a checkpoint to its original model, according to its record. If the
/// model's own names in `tree` are below a prefix, they lose it. Throws: as compile_inverse.
CompiledModel compile_recorded(const Recorded& recorded, const MappingOptions& mapping,
                               Catalog& tree);

}  // namespace hfshard
