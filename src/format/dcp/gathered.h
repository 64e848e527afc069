#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// Returns whether a file is the metadata of one rank that saved alone (use_collectives=False):
/// "__3.metadata".
bool is_rank_metadata(std::string_view name);

/// Merges the metadata that each rank wrote in a directory. The first rank counts for parts and
/// objects that several ranks have. `without`: Choice::without. `notes` name those that differ.
/// Throws: not_found (a rank wrote data and no metadata), corrupt (they contradict each other), as
/// read_metadata.
Metadata gather_metadata(const StorePath& directory, const std::vector<std::string>& names,
                         const std::vector<std::string>& without, std::vector<std::string>& notes);

/// Merges the headers of a directory of shards. They don't state the size of a tensor, so it ends
/// with its last existing part; `notes` say so. Throws: not_found (a shard is missing among them),
/// bad_input (shards of two checkpoints), corrupt, unsupported (a dtype), io.
Metadata gather_shards(const StorePath& directory, const std::vector<std::string>& names,
                       const std::vector<std::string>& without, std::vector<std::string>& notes);

}  // namespace hfshard::format::dcp
