#pragma once

#include <string>
#include <vector>

#include "catalog/checkpoint.h"
#include "conformance/samples.h"

namespace hfshard::conformance {

/// Returns a whole array, row-major.
std::string read_array(const Checkpoint& opened, const std::string& name);
/// Returns the names of arrays that have changed.
std::string differing_arrays(const Checkpoint& opened, const std::vector<Expected>& wanted);

}  // namespace hfshard::conformance
