#pragma once

#include <vector>

#include "hfshard/convert.h"
#include "hfshard/hub.h"
#include "hfshard/inspect.h"

namespace hfshard {

/// Returns the cost of loading an existing checkpoint on the requested meshes, as for a plan with
/// the sizes of its chunks. `unreadable` doesn't count. Throws: usage (its arrays have no chunks, a
/// wrong mesh), bad_input (a dimension doesn't divide), as open_source_model.
std::vector<LoadReport> stored_loads(const SourceName& name, const InspectOptions& options,
                                     const std::vector<UnreadableArray>& unreadable,
                                     Reporter& reporter);

}  // namespace hfshard
