#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "bytes/local/owned_directory.h"
#include "run/commit/staging.h"

#include "hfshard/error.h"

namespace hfshard {

/// Writes a durable note to the staging directory, before its step and hf/ are renamed into place.
/// It shows a later run whether they were. Afterwards the staging directory can hold the old step.
void mark_publishing(const OutPaths& paths);
/// Returns the staged step that a note names. Throws: corrupt (it isn't in the staged tree).
std::string noted_step(const OutPaths& paths, const Json& mark);
/// Returns the inode of a path, following links, or 0 if it doesn't exist.
std::uint64_t inode_of(const std::string& path);
/// Returns the error for a note that hfshard can't have written.
Error bad_mark(const OutPaths& paths, const std::string& what);
/// Writes another kind of note in the same place.
void write_mark(const OutPaths& paths, const Json& mark);
/// Removes the note, when all staged files are in staging.
void remove_mark(const OutPaths& paths);

/// Moves the files of an interrupted run back to OUT and to staging, unless it had published.
/// Throws: io, bad_input.
StagingUse recover(const OutPaths& paths);
/// Returns the same without moving files. Throws: io, bad_input.
StagingUse staging_use(const OutPaths& paths);

/// Recovers and removes a staging directory: journals first, the note last. If it is interrupted, a
/// later run doesn't take the rest for finished work, and still knows that the step was published.
/// Throws: io.
void remove_staging(const OwnedDirectory& staging, const OutPaths& paths);
/// Removes its contents in the same way, except its marker.
void empty_staging(const OwnedDirectory& staging, const OutPaths& paths);
/// Returns whether a run has begun to write data there.
bool has_journals(const OutPaths& paths);

}  // namespace hfshard
