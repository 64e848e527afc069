#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "bytes/store/store.h"
#include "catalog/catalog.h"

namespace hfshard::format::orbax {

/// Reads an item's `_sharding` into `catalog.shardings`: the mesh axes of every dim of each array
/// when it was saved. They stay empty without that file, or if it names no axes. The arrays don't
/// need it, so a file that hfshard can't read only adds a note. Returns the JSON of the file, or
/// null. Source: google/orbax checkpoint/orbax/checkpoint/_src/metadata/sharding.py. Throws: io.
Json read_shardings(const StorePath& item, Catalog& catalog);

/// Parses the text of such a file. Throws: corrupt, bad_input.
PerLeaf<ArraySharding> parse_shardings(std::string_view text, const std::string& file,
                                       const Catalog& catalog);

}  // namespace hfshard::format::orbax
