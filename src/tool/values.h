#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hfshard {

// What an option takes. Each throws usage, naming the option, what was typed and what would do.

/// Position of `value` among those that an option knows.
std::size_t one_of(const std::string& value, const std::vector<std::string>& known,
                   std::string_view option);
/// That it is a whole number from `least` to `most`.
void check_whole(const std::string& text, std::string_view option, std::uint64_t least,
                 std::uint64_t most);

}  // namespace hfshard
