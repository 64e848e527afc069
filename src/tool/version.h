#pragma once

#include <string>

namespace hfshard {

/// Returns the text of `--version`. The first line is the version alone. Below are the facts that a
/// bug report needs: commit, compiler, architecture, libraries, and the releases of other programs
/// that the tests use.
std::string version_text();

}  // namespace hfshard
