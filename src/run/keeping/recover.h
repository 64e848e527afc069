#pragma once

#include <cstdint>

#include "base/json.h"
#include "bytes/owned_directory.h"
#include "run/keeping/staging.h"

namespace hfshard {

/// Notes durably in the staging directory that its step, and its hf/, are about to be renamed into
/// place, so that a later run can tell whether they were. Afterwards the staging directory may hold
/// the old step.
void mark_publishing(const OutPaths& paths);
/// Writes a note of its own in the same place.
void write_mark(const OutPaths& paths, const Json& mark);
/// Nothing of what is staged is in place.
void remove_mark(const OutPaths& paths);

/// Puts back what an interrupted run had moved aside, and what it had put in place of it, unless it
/// had published. Throws: io, bad_input.
StagingUse recover(const OutPaths& paths);
/// Only tells. Throws: io, bad_input.
StagingUse staging_use(const OutPaths& paths);

/// Removes a staging directory so that, wherever this is interrupted, nothing that is left is taken
/// for finished work, and what was published stays known as such: journals first, the note last.
/// Recovers before. Throws: io.
void remove_staging(const OwnedDirectory& staging, const OutPaths& paths);
/// The same for all it holds but its marker.
void empty_staging(const OwnedDirectory& staging, const OutPaths& paths);
/// True if some run has begun to write data there.
bool has_journals(const OutPaths& paths);

}  // namespace hfshard
