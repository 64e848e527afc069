#pragma once

#include <memory>
#include <string>

#include "bytes/hub/hub_client.h"
#include "bytes/hub/hub_file.h"
#include "bytes/hub/hub_reads.h"
#include "bytes/store/store.h"

namespace hfshard {

/// Returns a model of a hub as files that are read in place. `snapshot`, if not empty, is the place
/// of the commit's files in the standard cache; existing ones are read from there. Without a
/// `client`, there are no others. Throws: network.
StorePath hub_place(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
                    std::string snapshot);

}  // namespace hfshard
