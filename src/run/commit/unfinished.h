#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/error.h"

namespace hfshard {

/// A run that has begun an output and hasn't published it. It was interrupted, or is still running.
struct Unfinished {
  std::string staging;
  std::string out;     ///< future place of the output
  std::string source;  ///< absolute path; empty if unknown
  bool links = false;
  bool goes_on = false;  ///< a process is working on it
  std::uint64_t step = 0;
  std::uint64_t done_bytes = 0;  ///< from the journals
  std::uint32_t workers = 1;
  std::vector<std::uint32_t> shares;  ///< that have begun, ascending
};

/// Finds the unfinished run of a place: an output or its step, or a staging directory or a path in
/// it. Doesn't lock. Throws: io.
std::optional<Unfinished> find_unfinished(const std::string& place);
/// Returns whether a place is in a staging directory, which doesn't contain checkpoints.
bool in_staging(const std::string& place);
/// Returns whether a place is a staging directory itself.
bool is_staging(const std::string& place);

/// Returns the error that the output doesn't exist yet, with a hint to resume. Code: not_found.
Error unfinished_error(const Unfinished& run);
/// Returns the same in one line, for an output with other steps.
std::string unfinished_note(const Unfinished& run);

}  // namespace hfshard
