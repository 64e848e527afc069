#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"
#include "catalog/catalog.h"

namespace hfshard::format::orbax {

/// How the arrays of an item were sharded when they were saved, from its `_sharding`: of each array
/// of the catalog the mesh axes along every dim. Empty without that file, or where it names no
/// axes. What cannot be understood is no reason to refuse the arrays, which do not need it: a note
/// says so. Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/sharding.py. Throws: io.
void read_shardings(const StorePath& item, Catalog& catalog);

/// The text of such a file. Throws: corrupt, bad_input.
PerLeaf<ArraySharding> parse_shardings(std::string_view text, const std::string& file,
                                       const Catalog& catalog);

}  // namespace hfshard::format::orbax
