#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

#include "hfshard/checkpoint.h"

namespace hfshard {

/// What a catalog says, for people and programs: copies, so that it outlives the checkpoint. Of the
/// arrays whose names fit a pattern, all if it is empty.
CheckpointInfo describe(const Catalog& catalog, const std::string& path,
                        std::string_view filter = {});
/// Whether a name fits a pattern, as all do that is empty.
bool fits(std::string_view filter, std::string_view name);
/// Adds where the pieces of the described arrays are, files relative to `root`.
void add_pieces(const Checkpoint& opened, const std::string& root, CheckpointInfo& info);

/// Model type, architectures and family of a source's config, as far as it has them.
Json config_facts(const Catalog& catalog);

}  // namespace hfshard
