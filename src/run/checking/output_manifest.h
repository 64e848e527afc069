#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "bytes/output.h"
#include "plan/plan.h"

namespace hfshard {

/// The digests of an output.
struct OutputDigests {
  std::vector<Digest128> sums;  ///< per slot of the model
  std::vector<bool> recorded;   ///< per transfer: not of what is only linked
  std::string root;             ///< hex; over all of them
};
/// Those of a plan, with their root. `sums` is per slot.
OutputDigests output_digests(const Plan& plan, std::vector<Digest128> sums);

/// Digest over all digests: SHA-256 of the lines "leaf, tensor, digest", sorted. It says what the
/// output holds and what that was made of, not how the mapping spells or orders its rules. Hex.
std::string root_digest(const Model& model, const std::vector<Digest128>& sums,
                        const std::vector<bool>& recorded);

/// Streams hfshard.json: sources, leaves, resolved rules and digests; enough for a newer tool to
/// verify the output without family files (docs/json.md). Sorted keys, no path, time or host.
void write_manifest(const Plan& plan, const OutputDigests& digests, const ByteSink& sink);

/// Streams the manifest at a path as it is. Throws: not_found, io.
void copy_manifest(const std::string& path, const ByteSink& sink);

/// What verify reads back.
struct Manifest {
  std::shared_ptr<const Model> model;
  OutputDigests digests;  ///< as recorded, the root too
  std::uint64_t step = 0;
  std::string plan_id;
  Json identity;         ///< the parts of the plan id
  std::string revision;  ///< the source's commit, where it had one
};
/// Throws: corrupt (with the JSON member), unsupported (a newer schema), not_found.
Manifest read_manifest(const std::string& path);

}  // namespace hfshard
