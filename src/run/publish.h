#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "plan/plan.h"
#include "run/staging.h"
#include "run/target.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Writes the side files, reopens the staged tree with our reader and checks every chunk of every
/// leaf, then renames it into place and removes the staging directory. The order is the protocol at
/// the top of publish.cpp. Throws: conflict (a differing hf/), corrupt (a chunk is missing), io.
/// Nothing is deleted before the rename. Of a plan that links, the source's files get their names
/// here, and `sums` the digests of what is linked if they are wanted.
void publish(const Plan& plan, const Placements& placed, const Target& target,
             const Staging& staging, const RunOptions& options, std::vector<Digest128>& sums,
             Reporter& reporter);

/// Where the item directory of a step directory is.
std::string item_directory(const Plan& plan, const Target& target, const std::string& step);

/// Calls `missing` for every chunk of every leaf that the checkpoint lacks.
void check_complete(const OpenedCheckpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing);

}  // namespace hfshard
