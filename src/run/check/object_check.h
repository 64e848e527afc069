#pragma once

#include "plan/plan.h"
#include "run/check/output_manifest.h"

#include "hfshard/convert.h"
#include "hfshard/verify.h"

namespace hfshard {

/// Adds what of an output's objects, and of where its names were in the saved state, isn't what the
/// manifest records. Throws: cancelled, io.
void verify_recorded_objects(const Catalog& output, const OutputDigests& recorded,
                             const RunOptions& options, VerifyResult& result);

/// Adds what of them isn't what the source has. `plan` is built from the source with the recorded
/// options. Throws: as above.
void verify_source_objects(const Catalog& output, const Plan& plan, const RunOptions& options,
                           VerifyResult& result);

}  // namespace hfshard
