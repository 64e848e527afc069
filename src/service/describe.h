#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "catalog/catalog.h"
#include "catalog/checkpoint.h"

#include "hfshard/checkpoint.h"

namespace hfshard {

/// Copies a catalog's facts, so that they outlive the checkpoint. `pattern` selects arrays by name;
/// empty: all.
CheckpointInfo describe(const Catalog& catalog, const std::string& path,
                        std::string_view filter = {});
/// Returns whether a name matches a pattern; every name matches an empty one.
bool fits(std::string_view filter, std::string_view name);
/// Adds the places of the described arrays' pieces, with files relative to `root`.
void add_pieces(const Checkpoint& opened, const std::string& root, CheckpointInfo& info);

/// Adds the model type, architectures and family of a source's config, if it has them.
Json config_facts(const Catalog& catalog);

}  // namespace hfshard
