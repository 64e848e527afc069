#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hfshard/mappings.h"

namespace hfshard {

/// Problems whose tensors differ only in their numbers: layers, experts.
struct ProblemGroup {
  CheckReport::Problem first;
  std::string tensors;      ///< "model.layers.{0-31}.mlp.up_proj.weight"; of one problem its tensor
  std::uint64_t count = 1;  ///< how many problems
};

/// Groups the problems, in the order of their first ones.
std::vector<ProblemGroup> group_problems(const std::vector<CheckReport::Problem>& problems);

}  // namespace hfshard
