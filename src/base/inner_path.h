#pragma once

#include <string_view>

namespace hfshard {

/// Returns whether a path from a file leads only below the directory it starts from: relative,
/// without empty parts, `.`, `..` and NUL.
bool is_inner_path(std::string_view path) noexcept;

}  // namespace hfshard
