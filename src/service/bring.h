#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bytes/hub/hub_store.h"

#include "hfshard/fetch.h"

namespace hfshard {

/// The resources of a download.
struct BringOptions {
  Reporter* reporter = nullptr;  ///< receives progress; may be null
  /// Returns the bytes of data in transit, enough for all connections.
  std::uint64_t memory_bytes = std::uint64_t{384} << 20;
};

/// Returns the rest of RunOptions::max_memory_bytes.
std::uint64_t bring_memory_bytes(std::uint64_t max_memory_bytes);

/// Throws: limit, if the cache at `root` has fewer `free` bytes than a download needs.
void check_cache_space(const std::string& root, std::uint64_t needed, std::uint64_t free);

/// Downloads `files` of a commit, whose whole listing is `tree`, into HubOptions::cache_directory.
/// Records that `revision` (empty: the default one) is at this commit. Throws: as fetch.
FetchReport bring_files(HubClient& client, const HubRepo& repo, const std::string& revision,
                        const std::vector<TreeFile>& tree, const std::vector<TreeFile>& files,
                        const BringOptions& options);

}  // namespace hfshard
