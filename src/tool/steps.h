#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace hfshard {

/// Adds "step" and "other_steps" of a root with steps.
void add_steps(std::optional<std::uint64_t> step, const std::vector<std::uint64_t>& others,
               Json& out);
/// `4; also there: 0, 1, 2, 3`: of many the highest eight are named.
std::string steps_text(std::uint64_t step, const std::vector<std::uint64_t>& others);

}  // namespace hfshard
