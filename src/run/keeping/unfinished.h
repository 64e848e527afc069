#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hfshard/error.h"

namespace hfshard {

/// A run that has begun an output and has not published it: interrupted, or still going on.
struct Unfinished {
  std::string staging;
  std::string out;     ///< where the output will stand
  std::string source;  ///< absolute path; empty if the record of the run cannot be read
  bool links = false;
  bool goes_on = false;  ///< some process is at work on it
  std::uint64_t step = 0;
  std::uint64_t done_bytes = 0;       ///< written, as the journals say
  std::uint32_t workers = 1;          ///< among which it was divided
  std::vector<std::uint32_t> shares;  ///< those that have begun, ascending
};

/// What a place says of such a run: an output or its step, or a staging directory or what lies in
/// it. Takes no lock. Throws: io.
std::optional<Unfinished> find_unfinished(const std::string& place);
/// True if a place lies in a staging directory, where nothing is a checkpoint yet.
bool in_staging(const std::string& place);

/// That there is no output yet, and how to go on. Code: not_found.
Error unfinished_error(const Unfinished& run);
/// The same in one line, for an output that has other steps.
std::string unfinished_note(const Unfinished& run);

}  // namespace hfshard
