#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/commit/staging.h"

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
/// (a chunk is missing), io. Nothing is deleted before the rename. `linked`: the files that this
/// run linked, which must be unchanged since. `staged`: is called when all files but the record are
/// staged, and writes that.
void publish(const Plan& plan, const Format& target, const Staging& staging,
             const RunOptions& options, const std::vector<CatalogFile>& linked,
             const std::function<void()>& staged);

/// True if OUT carries this plan, whole.
bool is_published(const Plan& plan, const Format& target, const OutPaths& paths);

/// Looks again at OUT once staging is ours: an equal run may have published it since. Then staging
/// is a directory that this run has just made, and goes. Returns whether nothing is left to do.
/// Throws: as check_output.
bool ended_meanwhile(const Plan& plan, const Format& target, const RunOptions& options,
                     const Staging& staging);

/// Calls `missing` for every chunk of every leaf that the checkpoint lacks; once `stop` is set,
/// for no more.
void check_complete(const Checkpoint& opened,
                    const std::function<void(std::uint32_t leaf, const Shape& chunk)>& missing,
                    const std::atomic<bool>* stop = nullptr);

}  // namespace hfshard
