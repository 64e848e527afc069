#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tool/options.h"

namespace hfshard {

enum class Shell : std::uint8_t { bash, zsh, fish };

/// Returns the script that completes the program's command lines in a shell.
std::string completions(const Command& program, Shell shell);

// The parts that the scripts share.

/// Returns all commands and groups of a program with their words: {"mappings", "check"}.
using CommandPaths = std::vector<std::pair<std::vector<std::string>, const Command*>>;
CommandPaths all_commands(const Command& program);

/// The completions that a shell offers for one value.
struct Offered {
  Offer kind = Offer::nothing;     ///< file, file_or_directory, directory; nothing: `words`
  std::vector<std::string> words;  ///< choices, families, mesh axes
  bool list = false;               ///< several words, separated by commas
};
Offered offered(const Option& option);
Offered offered(const Positional& positional);

std::string bash_completions(const Command& program);
std::string zsh_completions(const Command& program);
std::string fish_completions(const Command& program);

}  // namespace hfshard
