#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "tool/options.h"

namespace hfshard {

/// What --help prints for a command that is called `path` ("hfshard mappings check"), in lines of
/// at most `columns`, of which 40 at least are taken.
std::string help_text(const Command& command, std::string_view path, std::size_t columns);

// What help, completions and manual pages have in common.

/// `hfshard convert [OPTIONS] SOURCE [OUT]`.
std::string usage_line(const Command& command, std::string_view path);
/// The sentence of an option with its default: `kernel threads (default 2; may be repeated)`.
std::string option_help(const Option& option);
std::string positional_help(const Positional& positional);
/// The groups that a table has, in order, with their options.
std::vector<std::pair<Group, std::vector<const Option*>>> grouped(const OptionTable& table);
/// The words of a text in lines of at most `width`, but for longer words; one line at least.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace hfshard
