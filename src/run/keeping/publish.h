#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/keeping/staging.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Writes a file of the staged step, durably. Throws: io, cancelled.
void write_staged(const Staging& staging, const RunOptions& options, const SideFile& file);

/// Writes the side files of the format into the staged step. Throws: io, cancelled.
void write_index(const Plan& plan, const Placements& placed, const Format& target,
                 const Staging& staging, const RunOptions& options, const std::string& root_digest);

/// Reopens the staged tree with our reader and checks every chunk of every leaf, then renames it
/// into place and removes the staging directory. The order is the protocol at the top of
/// publish.cpp. Throws: conflict (a differing hf/; what stands at OUT may not be replaced), corrupt
/// (a chunk is missing), io. Nothing is deleted before the rename.
void publish(const Plan& plan, const Format& target, const Staging& staging,
             const RunOptions& options);

/// True if OUT carries this plan, whole.
bool is_published(const Plan& plan, const Format& target, const OutPaths& paths);

/// Calls `missing` for every chunk of every leaf that the checkpoint lacks; once `stop` is set,
/// for no more.
void check_complete(const Checkpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace hfshard
