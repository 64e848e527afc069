#pragma once

#include <string>

#include "catalog/catalog.h"
#include "plan/compile/compile_model.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns the options that concern the model in a source.
MappingOptions to_model(const MappingOptions& asked);

/// Compiles a source through the model that `back` makes of it. `config` is that model's config.
/// Throws: as compile_model.
CompiledModel compile_onward(const CompiledModel& back, std::string config, const Catalog& source,
                             const MappingOptions& mapping);

}  // namespace hfshard
