#pragma once

#include <cstdint>

#include "run/staging.h"

namespace hfshard {

/// Notes durably in the staging directory that its step is about to be renamed into place, so that
/// a later run can tell whether it was. Afterwards the staging directory may hold the old step.
void mark_publishing(const OutPaths& paths);

/// What a staging directory is good for after the last run in it ended, however it ended.
enum class StagingUse : std::uint8_t {
  go_on,      ///< its journals and data belong together
  published,  ///< its step is in place already; what it holds is the old one, or nothing
};
/// Puts back what an exchange by three renames left aside, and tells. Throws: io, bad_input.
StagingUse recover(const OutPaths& paths);

/// Removes a staging directory so that, wherever this is interrupted, nothing that is left is taken
/// for finished work: journals first. Throws: io.
void remove_staging(const OutPaths& paths);
/// The same for all it holds but its lock.
void empty_staging(const OutPaths& paths);
/// True if some run has begun to write data there.
bool has_journals(const OutPaths& paths);

}  // namespace hfshard
