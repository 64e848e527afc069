#pragma once

#include <optional>
#include <string>

namespace hfshard {

/// A variable of the environment that is set and not empty.
std::optional<std::string> variable(const std::string& name);

}  // namespace hfshard
