#pragma once

#include <memory>
#include <string>

#include "bytes/hub_client.h"
#include "bytes/hub_file.h"
#include "bytes/hub_reads.h"
#include "bytes/store.h"

namespace hfshard {

/// Asks a hub for the commit that a revision (branch, tag, `refs/pr/N`, commit) is now. Empty: that
/// of the model's default branch. Throws: not_found, network.
HubRepo resolve_revision(HubClient& client, const std::string& repo, const std::string& revision);
/// All files of a commit, but for those whose path is none (it leaves the model): the first of them
/// is told (HubOptions::note). Throws: network (the answer is no listing).
std::vector<TreeFile> list_files(HubClient& client, const HubRepo& repo);

/// A model of a hub, as files that are read where they lie. `snapshot`, if not empty, is where the
/// standard cache has files of the same commit, if it has any: those are read from there.
/// `client` may be null: there is nothing else then. Throws: network.
StorePath hub_place(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
                    std::string snapshot);

}  // namespace hfshard
