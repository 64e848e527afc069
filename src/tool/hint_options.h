#pragma once

#include <string>
#include <string_view>

#include "tool/options.h"

namespace hfshard {

/// Returns `hint` with a note on options that `command` lacks and another command of `app` has.
/// Example: "--scheme hf keeps the names (--scheme is an option of convert)". Errors come from
/// layers that don't know which command runs. A hint that already names the command stays
/// unchanged.
std::string with_owners(const Command& app, const Command& command, std::string_view hint);

}  // namespace hfshard
