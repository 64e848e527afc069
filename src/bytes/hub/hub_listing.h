#pragma once

#include <string>
#include <vector>

#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_file.h"

namespace hfshard {

/// Asks a hub for the current commit of a revision (branch, tag, `refs/pr/N`, commit). An empty
/// revision means the model's default branch. Throws: not_found, network.
HubRepo resolve_revision(HubClient& client, const std::string& repo, const std::string& revision);
/// Lists all files of a commit. Skips entries whose path escapes the repository, and notes the
/// first one (HubOptions::note). Throws: network (the answer isn't a listing).
std::vector<TreeFile> list_files(HubClient& client, const HubRepo& repo);

}  // namespace hfshard
