#pragma once

#include <string>
#include <vector>

#include "base/digest.h"
#include "bytes/output.h"
#include "plan/plan.h"

namespace hfshard {

/// Name of the manifest in the step directory.
inline constexpr const char* kManifestName = "hfshard.json";

/// Digest over all digests: SHA-256 of the lines "leaf, tensor, digest", sorted. It says what the
/// output holds and what that was made of, not how the mapping spells or orders its rules. Hex.
std::string root_digest(const Plan& plan, const std::vector<Digest128>& sums);

/// Streams hfshard.json: sources, leaves, resolved rules and digests; enough for a newer tool to
/// verify the output without family files (docs/json.md). Sorted keys, no path, time or host.
void write_manifest(const Plan& plan, const std::vector<Digest128>& sums, const ByteSink& sink);

/// What verify reads back: a plan without placement (index_plan done), and the recorded digests.
struct Manifest {
  Plan plan;
  std::vector<Digest128> sums;
  std::string root;
};
/// Throws: corrupt (with the JSON member), unsupported (a newer schema), not_found.
Manifest read_manifest(const std::string& path);

}  // namespace hfshard
