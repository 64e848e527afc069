#pragma once

#include "base/json.h"

#include "hfshard/dtype.h"

namespace hfshard {

/// The extents as an array of numbers: `[2048,1024]`; a scalar is `[]`.
Json shape_json(const Shape& shape);

}  // namespace hfshard
