#pragma once

#include <optional>
#include <string>

namespace hfshard {

/// Returns an environment variable that is set and not empty.
std::optional<std::string> variable(const std::string& name);

}  // namespace hfshard
