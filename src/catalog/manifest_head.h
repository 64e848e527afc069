#pragma once

#include <string>

#include "base/json.h"
#include "bytes/store.h"

namespace hfshard {

/// Name of the file with digests, sources and rules that a run writes into the step directory,
/// whatever the format (run/checking/output_manifest.h). A format may say that it is what commits.
inline constexpr const char* kManifestName = "hfshard.json";
/// Name beside it of the manifest of what the output is a copy of, laid out anew.
inline constexpr const char* kOriginName = "hfshard.origin.json";

/// What this file of a directory states in its first line. Empty if there is no such file, and if
/// it is not whole.
struct ManifestHead {
  std::string plan_id;
  std::string tool;  ///< "hfshard 0.1.0"
  Json identity;     ///< the parts of the plan id; null if there are none
};
/// Throws: io.
ManifestHead manifest_head(const StorePath& directory);

}  // namespace hfshard
