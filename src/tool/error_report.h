#pragma once

#include <cstddef>
#include <string>

#include "base/json.h"

#include "hfshard/error.h"

namespace hfshard {

/// Returns the facts of an error for --json.
Json error_json(const Error& error);
/// Returns the text of an error for standard error, one fact per line. Sentence and hint are
/// wrapped at words. A long command at the end of a hint gets its own line, so that it can be
/// pasted.
std::string error_text(const Error& error, std::size_t columns);
/// Returns the columns for errors: the terminal's; without a bound for files and pipes.
std::size_t error_columns();

}  // namespace hfshard
