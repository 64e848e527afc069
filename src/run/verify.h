#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "run/manifest.h"
#include "run/target.h"

#include "hfshard/convert.h"

namespace hfshard {

/// One thing that is not as it should be.
struct Difference {
  std::string leaf;    ///< dotted path
  std::string chunk;   ///< chunk coordinates "0, 3", empty when the finding is about a whole tensor
  std::string tensor;  ///< source tensor, if known
  std::string what;
};

struct VerifyResult {
  std::uint64_t checked_bytes = 0;
  std::uint64_t unrecorded_bytes = 0;  ///< of linked leaves without digests: not read
  std::uint64_t chunks = 0;
  std::uint64_t tensors = 0;
  std::vector<Difference> differences;  ///< all of them
};

/// What a reading of leaves through the inverse of their rules gives.
struct OutputDigests {
  VerifyResult result;           ///< damage, and fills that are not as they should be
  std::vector<Digest128> sums;   ///< per slot
  std::vector<bool> damaged;     ///< per leaf: some chunk could not be read, and was said
  std::vector<bool> incomplete;  ///< per leaf: missing, of another form, or not wanted
};
/// Reads and hashes the leaves that are `wanted`. Memory as run_convert. Throws: limit, io.
OutputDigests digest_output(const OpenedCheckpoint& opened, Plan plan,
                            const std::vector<bool>& wanted, const RunOptions& options,
                            Reporter& reporter);

/// Recomputes the recorded digests from the output alone, through the inverse of the recorded
/// rules, and checks every chunk's checksum and every fill. Damaged and missing chunks are
/// differences. Memory as run_convert. Throws: limit, io, corrupt (metadata or manifest
/// unreadable).
VerifyResult verify_digests(const OpenedCheckpoint& opened, const Manifest& manifest,
                            const RunOptions& options, Reporter& reporter);

/// Computes the output again from its source and compares every byte. `plan` is built from the
/// source with the recorded options. Throws: as above.
VerifyResult verify_source(const OpenedCheckpoint& opened, const Plan& plan,
                           const RunOptions& options, Reporter& reporter);

}  // namespace hfshard
