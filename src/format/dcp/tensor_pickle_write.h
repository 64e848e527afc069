#pragma once

#include <string>

#include "hfshard/dtype.h"

namespace hfshard::format::dcp {

/// Returns the pickle of a packed, row-major tensor of that shape, in units, in the record data/0.
/// It has torch's form, without a memo.
std::string tensor_pickle(DType dtype, const Shape& shape);

}  // namespace hfshard::format::dcp
