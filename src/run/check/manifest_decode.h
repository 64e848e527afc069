#pragma once

#include "base/json.h"
#include "catalog/catalog.h"
#include "ops/transfer.h"

namespace hfshard {

/// A decoder as hfshard.json records it. `shape`: of the codes.
Json json_decode(const Decode& decode, const Shape& shape);
/// Reads it back. Throws: corrupt.
Decode read_decode(const Json& json, const Shape& shape, const Catalog& catalog);

}  // namespace hfshard
