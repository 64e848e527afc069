#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tool/options.h"

namespace hfshard {

/// Returns the --help text of a command that is called `path` ("hfshard mappings check"). Lines
/// have at most `columns`, which counts as 40 or more.
std::string help_text(const Command& command, std::string_view path, std::size_t columns);

// The parts that help, completions and manual pages share.

/// Returns `hfshard convert [OPTIONS] SOURCE [OUT]`.
std::string usage_line(const Command& command, std::string_view path);
/// Returns an option's help with its default: `threads that compute (default 2)`.
std::string option_help(const Option& option);
std::string positional_help(const Positional& positional);
/// Returns the groups of a table, in order, with their options.
std::vector<std::pair<Group, std::vector<const Option*>>> grouped(const OptionTable& table);
/// Wraps a text at words into lines of at most `width`; longer words keep their line. Returns at
/// least one line.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace hfshard
