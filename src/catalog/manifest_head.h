#pragma once

#include <string>

#include "bytes/store.h"

namespace hfshard {

/// Name of the file with digests, sources and rules that a run writes into the step directory,
/// whatever the format (run/checking/output_manifest.h). A format may say that it is what commits.
inline constexpr const char* kManifestName = "hfshard.json";
/// Name beside it of the manifest of what the output is a copy of, laid out anew.
inline constexpr const char* kOriginName = "hfshard.origin.json";

/// The plan id that this file of a directory states, from its first line. Empty if there is no such
/// file, and if it is not whole. Throws: io.
std::string manifest_plan_id(const StorePath& directory);

}  // namespace hfshard
