#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hfshard/convert.h"
#include "hfshard/hub.h"

namespace hfshard {

/// The files of a model that `fetch` downloads.
struct FetchOptions {
  /// Globs on paths; `*` matches slashes too. All files if empty.
  std::vector<std::string> include;
  std::vector<std::string> exclude;  ///< excluded from `include`
};

/// The result of `fetch`.
struct FetchReport {
  std::string model;
  std::string commit;
  std::string snapshot;             ///< directory of the files
  std::uint64_t files = 0;          ///< selected
  std::uint64_t bytes = 0;          ///< selected
  std::uint64_t fetched_files = 0;  ///< downloaded
  std::uint64_t fetched_bytes = 0;
};

/// Downloads files of a Hub model into HubOptions::cache_directory, in the layout of
/// huggingface_hub, which then finds them offline too. Compares each file with the digest that the
/// Hub lists. Skips files that exist with the right size. Reports the bytes of the files. On
/// errors, completed files are kept. Throws: usage (not a model name, no cache, offline), not_found
/// (no such model, no file matches), network, corrupt, limit (disk, memory), conflict, cancelled
/// (HubOptions::stop), io.
FetchReport fetch(const SourceName& source, const FetchOptions& options, Reporter& reporter);

}  // namespace hfshard
