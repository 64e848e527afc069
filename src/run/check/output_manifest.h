#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/digest.h"
#include "base/json.h"
#include "bytes/local/output.h"
#include "catalog/object.h"
#include "plan/plan.h"
#include "run/check/written_files.h"

namespace hfshard {

/// An object of an output, as recorded.
struct ObjectRecord {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::string sha256;  ///< hex, of the stored bytes
  friend bool operator==(const ObjectRecord&, const ObjectRecord&) = default;
};

/// The digests of an output.
struct OutputDigests {
  std::vector<Digest128> sums;        ///< per slot of the model
  std::vector<bool> recorded;         ///< per transfer; false if only linked
  std::vector<ObjectRecord> objects;  ///< sorted by name
  std::string nested;                 ///< nested_digest of Catalog::nested; empty: not kept
  std::string root;                   ///< hex; over all of them
};
/// Returns the digests of a plan, with their root. `sums` is per slot, `objects` the SHA-256 of
/// each object.
OutputDigests output_digests(const Plan& plan, std::vector<Digest128> sums,
                             const std::vector<std::string>& objects);

/// Returns the digest over all digests, in hex. It is the SHA-256 of the sorted lines "leaf,
/// tensor, digest", of a line for each object, and of the nested names. It depends on the output
/// and its sources, not on the spelling or order of rules.
std::string root_digest(const Model& model, const OutputDigests& digests);
/// Returns the SHA-256 of the lines "name, keys" for the names that `is_wanted` accepts. Empty if
/// it accepts no name.
std::string nested_digest(const std::vector<NestedName>& nested,
                          const std::function<bool(const std::string&)>& is_wanted);

/// Streams hfshard.json: sources, leaves, resolved rules and digests. A newer release can verify
/// the output with it, without family files (docs/json.md). It has sorted keys, and no path, time
/// or host. Its last member is the SHA-256 of the bytes before it.
void write_manifest(const Plan& plan, const OutputDigests& digests, const WrittenFiles& files,
                    const ByteSink& sink);

/// Streams the manifest at a path as it is. Throws: not_found, io.
void copy_manifest(const std::string& path, const ByteSink& sink);

/// The manifest, as verify reads it.
struct Manifest {
  std::shared_ptr<const Model> model;
  OutputDigests digests;  ///< as recorded, the root too
  std::uint64_t step = 0;
  std::string plan_id;
  Json identity;                 ///< the parts of the plan id
  std::string revision;          ///< the source's commit, if known
  std::string structure_sha256;  ///< for a reshard, else empty
  WrittenFiles files;            ///< empty before 0.2.0
  bool is_damaged = false;       ///< its own SHA-256 differs
};
/// Throws: corrupt (with the JSON member), unsupported (a newer schema), not_found.
Manifest read_manifest(const std::string& path);
/// Does the same for all but verify, which lists damage. Throws: corrupt, also if the manifest's
/// own SHA-256 differs.
Manifest read_intact_manifest(const std::string& path);

}  // namespace hfshard
