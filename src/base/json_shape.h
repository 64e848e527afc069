#pragma once

#include <string>
#include <vector>

#include "base/json.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// The extents as an array of numbers: `[2048,1024]`; a scalar is `[]`.
Json shape_json(const Shape& shape);
/// An array of strings.
Json texts_json(const std::vector<std::string>& texts);

}  // namespace hfshard
