#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

#include "hfshard/hfshard.h"

namespace hfshard {

/// Reads `--steps`: `all`, numbers as in `3,10`, or `-2` for the last two. Throws: usage.
StepList parse_step_list(const std::string& text);

/// Adds "step" and "other_steps" for a root with steps.
void add_steps(std::optional<std::uint64_t> step, const std::vector<std::uint64_t>& others,
               Json& out);
/// Returns `4; other steps: 0, 1, 2, 3`, with at most the eight highest.
std::string steps_text(std::uint64_t step, const std::vector<std::uint64_t>& others);

}  // namespace hfshard
