#pragma once

#include <string>
#include <vector>

#include "catalog/format.h"
#include "plan/plan.h"
#include "run/commit/staging.h"

#include "hfshard/convert.h"

namespace hfshard {

/// Returns the objects of a plan and the data file that holds them: the one after the last.
CarriedObjects carried_objects(const Plan& plan);

/// Compares the checksums that the objects of a plan carry, before anything is moved: a damaged
/// object isn't copied. Throws: corrupt and not_found with the object's name, cancelled, io.
void check_objects(const Plan& plan, const RunOptions& options);

/// Copies the objects of a plan into their staged data file, as a stream; writes no file if there
/// are no objects. Returns the SHA-256 of each, in hex. Throws: corrupt and not_found with the
/// object's name, cancelled, io.
std::vector<std::string> write_objects(const Plan& plan, const Staging& staging,
                                       const RunOptions& options);

}  // namespace hfshard
