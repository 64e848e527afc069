#pragma once

#include <memory>
#include <vector>

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/check/output_manifest.h"

#include "hfshard/convert.h"
#include "hfshard/verify.h"

namespace hfshard {

/// The digests of leaves that were read through the inverse of their rules.
struct LeafDigests {
  VerifyResult result;           ///< damage, and wrong fills
  std::vector<Digest128> sums;   ///< per slot
  std::vector<bool> damaged;     ///< per leaf: unreadable, in `result`
  std::vector<bool> incomplete;  ///< per leaf: missing, other form, unwanted
};
/// Reads and hashes the `wanted` leaves, split as in the output. `limits` bound the reading;
/// `beside_bytes`: heap of the caller, except the checkpoint and the model. Memory as run_convert.
/// Throws: limit, io.
LeafDigests digest_output(const Checkpoint& opened, const std::shared_ptr<const Model>& model,
                          const std::vector<bool>& wanted, const Limits& limits,
                          std::uint64_t beside_bytes, const RunOptions& options,
                          Reporter& reporter);
/// Puts the digests of the linked leaves of a plan into `sums`, read through its index. Throws:
/// corrupt (missing or damaged data), cancelled (the hint says how to resume), as above.
void digest_linked(const Checkpoint& opened, const Plan& plan, const RunOptions& options,
                   std::vector<Digest128>& sums, Reporter& reporter);

/// Recomputes the recorded digests from the output alone, through the inverse of the recorded
/// rules, and checks every chunk's checksum and every fill. Damaged and missing chunks are
/// differences. Memory as run_convert. Throws: limit, io, corrupt (metadata or manifest
/// unreadable).
VerifyResult verify_digests(const Checkpoint& opened, const Manifest& manifest,
                            const RunOptions& options, Reporter& reporter);

/// Computes the output again from its source and compares every byte. `plan` is built from the
/// source with the recorded options. Throws: as above.
VerifyResult verify_source(const Checkpoint& opened, const Plan& plan, const RunOptions& options,
                           Reporter& reporter);

}  // namespace hfshard
