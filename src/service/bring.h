#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytes/hub_store.h"

#include "hfshard/fetch.h"

namespace hfshard {

/// What may be used while files are brought.
struct BringOptions {
  Reporter* reporter = nullptr;  ///< told how far it is; may be null
  /// Of data on its way: enough for all connections.
  std::uint64_t memory_bytes = std::uint64_t{384} << 20;
};

/// What is left for that of RunOptions::max_memory_bytes.
std::uint64_t bring_memory_bytes(std::uint64_t max_memory_bytes);

/// Brings `files` of a commit, whose whole listing is `tree`, into HubOptions::cache_directory, and
/// notes that `revision` (empty: the default one) is at this commit. Throws: as fetch.
FetchReport bring_files(HubClient& client, const HubRepo& repo, const std::string& revision,
                        const std::vector<TreeFile>& tree, const std::vector<TreeFile>& files,
                        const BringOptions& options);

}  // namespace hfshard
