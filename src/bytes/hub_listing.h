#pragma once

#include <string>
#include <vector>

#include "bytes/hub_client.h"
#include "bytes/hub_file.h"

namespace hfshard {

/// Asks a hub for the commit that a revision (branch, tag, `refs/pr/N`, commit) is now. Empty: that
/// of the model's default branch. Throws: not_found, network.
HubRepo resolve_revision(HubClient& client, const std::string& repo, const std::string& revision);
/// All files of a commit, but for those whose path is none (it leaves the model): the first of them
/// is told (HubOptions::note). Throws: network (the answer is no listing).
std::vector<TreeFile> list_files(HubClient& client, const HubRepo& repo);

}  // namespace hfshard
