#pragma once

#include <string>
#include <vector>

namespace hfshard {

/// Returns that a numbered module lacks tensors that most modules beside it have, such as one block
/// of a vision tower. Empty if none does. It finds what is lost from parts of a model that no rule
/// knows. `names`: tensors of these parts.
std::string uneven_modules(const std::vector<std::string>& names);

}  // namespace hfshard
