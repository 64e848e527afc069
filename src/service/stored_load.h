#pragma once

#include <vector>

#include "hfshard/convert.h"
#include "hfshard/hub.h"
#include "hfshard/inspect.h"

namespace hfshard {

/// What loading a checkpoint that is there costs on the meshes that are asked about: as of a plan,
/// with the sizes that its chunks have. Throws: usage (its arrays are not cut, a mesh), bad_input
/// (a dimension does not divide), as open_source_model.
std::vector<LoadReport> stored_loads(const SourceName& name, const InspectOptions& options,
                                     Reporter& reporter);

}  // namespace hfshard
