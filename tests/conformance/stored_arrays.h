#pragma once

#include <string>
#include <vector>

#include "catalog/checkpoint.h"
#include "conformance/samples.h"

namespace hfshard::conformance {

/// A whole array, row-major.
std::string read_array(const Checkpoint& opened, const std::string& name);
/// Names of arrays that are not as they were.
std::string differing_arrays(const Checkpoint& opened, const std::vector<Expected>& wanted);

}  // namespace hfshard::conformance
