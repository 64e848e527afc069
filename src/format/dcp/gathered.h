#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// Metadata of a rank that saved without the others (use_collectives=False): "__3.metadata".
bool is_rank_metadata(std::string_view name);

/// What all ranks together have, of a directory in which each wrote metadata of its own. A part
/// that several have is taken of the first. Throws: not_found (a rank wrote data and no metadata),
/// corrupt (they contradict each other), as read_metadata.
Metadata gather_metadata(const StorePath& directory, const std::vector<std::string>& names);

/// The same of a directory of shards, by their headers. Nothing there says how large a tensor is:
/// it ends with the last part that there is, as `notes` says. Throws: not_found (a shard is missing
/// among them), bad_input (shards of two checkpoints), corrupt, unsupported (a dtype), io.
Metadata gather_shards(const StorePath& directory, const std::vector<std::string>& names,
                       std::vector<std::string>& notes);

}  // namespace hfshard::format::dcp
