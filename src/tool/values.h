#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace hfshard {

// What a flag takes. Each throws usage, naming the flag, what was typed and what would do.

/// Position of `value` among those that a flag knows.
std::size_t one_of(const std::string& value, const std::vector<std::string>& known,
                   std::string_view flag);
/// The same, checked while the command line is read.
CLI::Validator choice(std::string flag, std::vector<std::string> known);
/// A whole number from `least` to `most`.
CLI::Validator whole(std::string flag, std::uint64_t least = 0, std::uint64_t most = INT64_MAX);

}  // namespace hfshard
