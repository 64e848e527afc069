#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "base/digest.h"
#include "catalog/format.h"
#include "plan/plan.h"
#include "run/keeping/staging.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Writes the side files, reopens the staged tree with our reader and checks every chunk of every
/// leaf, then renames it into place and removes the staging directory. The order is the protocol at
/// the top of publish.cpp. Throws: conflict (a differing hf/; what stands at OUT may not be
/// replaced), corrupt (a chunk is missing), io.
/// Nothing is deleted before the rename. Of a plan that links, the source's files get their names
/// here, and `sums` the digests of what is linked if they are wanted.
void publish(const Plan& plan, const Placements& placed, const Format& target,
             const Staging& staging, const RunOptions& options, std::vector<Digest128>& sums,
             Reporter& reporter);

/// True if OUT carries this plan, whole.
bool is_published(const Plan& plan, const Format& target, const OutPaths& paths);

/// Calls `missing` for every chunk of every leaf that the checkpoint lacks; once `stop` is set,
/// for no more.
void check_complete(const Checkpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace hfshard
