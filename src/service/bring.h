#pragma once

#include <string>
#include <vector>

#include "bytes/hub_store.h"

#include "hfshard/fetch.h"

namespace hfshard {

/// Brings `files` of a commit, whose whole listing is `tree`, into HubOptions::cache_directory, and
/// notes that `revision` (empty: the default one) is at this commit. Throws: as fetch.
FetchReport bring_files(HubClient& client, const HubRepo& repo, const std::string& revision,
                        const std::vector<TreeFile>& tree, const std::vector<TreeFile>& files);

}  // namespace hfshard
