#pragma once

#include <string>
#include <vector>

#include "format/dcp/item.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// Adds notes that name tensors of which several ranks stored a part: those whose CRCs differ, and
/// those that can't be compared without reading them. Reads an item's directory for each replica.
/// Throws: io.
void name_replicas(const Items& items, const Metadata& metadata, std::vector<std::string>& notes);

}  // namespace hfshard::format::dcp
