#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "mutation/cases.h"

namespace hfshard::mutation {

/// Returns the lines of tests/interop/module_names.json that differ from the leaves of a case. A
/// line has names with the first number of each in braces, shapes, and a hash of all of them as
/// f32.
std::vector<std::string> other_lines(const Case& made, const Json& lines);

}  // namespace hfshard::mutation
