#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

// Checks of option values. Each throws usage with the option, the typed value and what would do.

/// Returns the position of `value` among the values that an option knows.
std::size_t one_of(const std::string& value, const std::vector<std::string>& known,
                   std::string_view option);
/// Checks that the text is a whole number from `least` to `most`.
void check_whole(const std::string& text, std::string_view option, std::uint64_t least,
                 std::uint64_t most);

}  // namespace hfshard
