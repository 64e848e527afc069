#pragma once

#include <string>

namespace hfshard {

/// The step directory with hfshard.json that `out` means: itself, its parent (of an item directory)
/// or its highest step that has one. Empty if there is none. Throws: io.
std::string step_directory(const std::string& out);

}  // namespace hfshard
