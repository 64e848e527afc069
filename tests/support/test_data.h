#pragma once

#include <string>

namespace hfshard {

/// Returns the path of a file or directory below tests/, such as "oracle/qwen3".
std::string test_data(const std::string& name);

}  // namespace hfshard
