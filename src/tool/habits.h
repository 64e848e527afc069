#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tool/options.h"

#include "hfshard/error.h"

namespace hfshard {

/// Translates a command line with words of other programs: `convert in out --tp 2` becomes `convert
/// in out --mesh tensor=2`. Returns nothing if no word changes.
std::optional<std::vector<std::string>> meant_words(const Command& program,
                                                    const std::vector<std::string>& words);

/// Adds a hint to the error of a command line with words of other programs: the whole corrected
/// line, or what to do instead. Other errors stay unchanged.
Error with_meant_line(const Command& program, const std::vector<std::string>& words,
                      const Error& error);

}  // namespace hfshard
