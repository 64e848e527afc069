#pragma once

#include <string>

#include "base/json.h"
#include "bytes/store/store.h"

namespace hfshard {

/// Name of the file with digests, sources and rules that a run writes into the step directory, in
/// all formats (run/check/output_manifest.h). Some formats use it as their commit file.
inline constexpr const char* kManifestName = "hfshard.json";
/// Name of the source's own manifest, which a reshard copies next to the new one.
inline constexpr const char* kOriginName = "hfshard.origin.json";

/// The first line of a manifest. Empty if the file doesn't exist or is incomplete.
struct ManifestHead {
  std::string plan_id;
  std::string tool;  ///< "hfshard 0.2.0"
  Json identity;     ///< the parts of the plan id, or null
};
/// Reads the first line of a directory's manifest. Throws: io.
ManifestHead manifest_head(const StorePath& directory);

}  // namespace hfshard
