#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/hub.h"

namespace hfshard {

/// Which files of a model `fetch` takes.
struct FetchOptions {
  std::vector<std::string> include;  ///< globs of paths, `*` matches slashes too; empty: all
  std::vector<std::string> exclude;  ///< of those, these are left out
};

/// What `fetch` found and did.
struct FetchReport {
  std::string model;
  std::string commit;
  std::string snapshot;             ///< the directory that has them now
  std::uint64_t files = 0;          ///< asked for
  std::uint64_t bytes = 0;          ///< of these
  std::uint64_t fetched_files = 0;  ///< that were not there
  std::uint64_t fetched_bytes = 0;
};

/// Brings files of a model of the hub into HubOptions::cache_directory, each checked by the digest
/// that the hub lists, as huggingface_hub does: it then finds them without asking, offline too.
/// What is there in its size is not asked for again. Throws: usage (no model's name, no cache,
/// offline), not_found (no such model; no file matches), network, corrupt, limit (disk, memory),
/// conflict, cancelled (HubOptions::stop), io; files that are whole stay. The reporter's bytes are
/// those of the files.
FetchReport fetch(const SourceName& source, const FetchOptions& options, Reporter& reporter);

}  // namespace hfshard
