#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "hfshard/mapping.h"

namespace hfshard {

/// `GLOB=DTYPE`, as --cast takes it and hfshard.json records it.
std::string to_string(const Cast& cast);

/// Parses it, up to the last `=`. Nothing if there is no glob, or no dtype of that name.
std::optional<Cast> parse_cast(std::string_view text);

}  // namespace hfshard
