#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "mutation/cases.h"

namespace hfshard::mutation {

/// The lines of tests/interop/module_names.json that say otherwise than the leaves of a case: names
/// with the first number of each in braces, shapes, and a hash over all of them as f32.
std::vector<std::string> other_lines(const Case& made, const Json& lines);

}  // namespace hfshard::mutation
