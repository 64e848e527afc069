#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes/store.h"
#include "format/dcp/metadata.h"

namespace hfshard::format::dcp {

/// Metadata of a rank that saved without the others (use_collectives=False): "__3.metadata".
bool is_rank_metadata(std::string_view name);
/// A file of torch's HuggingFace writer with the parts of one rank:
/// "shard-00001-model-00001-of-00001.safetensors".
bool is_rank_shard(std::string_view name);

/// What all ranks together have, of a directory in which each wrote metadata of its own. A part
/// that several have is taken of the first. Throws: not_found (a rank wrote data and no metadata),
/// corrupt (they contradict each other), as read_metadata.
Metadata gather_metadata(const StorePath& directory, const std::vector<std::string>& names);

/// The same of a directory of shards, by their headers. Nothing there says how large a tensor is:
/// it ends with the last part that there is. Throws: not_found (a shard is missing among them),
/// corrupt, unsupported (a dtype), io.
Metadata gather_shards(const StorePath& directory, const std::vector<std::string>& names);

}  // namespace hfshard::format::dcp
