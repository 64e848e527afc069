#pragma once

#include <string>

#include "base/json.h"
#include "catalog/catalog.h"

#include "hfshard/checkpoint.h"

namespace hfshard {

/// What a catalog says, for people and programs: copies, so that it outlives the checkpoint.
CheckpointInfo describe(const Catalog& catalog, const std::string& path);

/// Model type, architectures and family of a source's config, as far as it has them.
Json config_facts(const Catalog& catalog);

}  // namespace hfshard
