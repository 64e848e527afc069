#pragma once

#include <string>

#include "hfshard/plan.h"

namespace hfshard {

/// Returns the options to write tensors with their stored names and shapes.
inline PlanOptions as_stored(const std::string& target) {
  PlanOptions out;
  out.target = target;
  out.mapping.scheme = "hf";
  return out;
}

}  // namespace hfshard
