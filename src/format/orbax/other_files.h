#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"

namespace hfshard::format::orbax {

inline constexpr std::string_view kRecordPrefix = "hfshard.";  ///< files that hfshard writes

/// Returns the entries of an item's directory that belong neither to the tree nor to hfshard,
/// sorted. Nothing reads or copies them. `arrays`: the names of the tree's arrays. Throws: io.
std::vector<std::string> other_files(const StorePath& item, const std::vector<std::string>& arrays);

}  // namespace hfshard::format::orbax
