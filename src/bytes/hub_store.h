#pragma once

#include <memory>
#include <string>

#include "bytes/hub_client.h"
#include "bytes/hub_file.h"
#include "bytes/hub_reads.h"
#include "bytes/store.h"

namespace hfshard {

/// A model of a hub, as files that are read where they lie. `snapshot`, if not empty, is where the
/// standard cache has files of the same commit, if it has any: those are read from there.
/// `client` may be null: there is nothing else then. Throws: network.
StorePath hub_place(std::shared_ptr<HubClient> client, HubRepo repo, std::vector<TreeFile> listing,
                    std::string snapshot);

}  // namespace hfshard
