#pragma once

#include <functional>

#include "hfshard/mapping.h"

namespace hfshard {

/// Tries a mapping with each part that --with could have named, one after another, and keeps those
/// parts for which `take` returns true. An error of `take` means no. Throws: internal.
void add_parts(MappingOptions mapping, const std::function<bool(const MappingOptions&)>& take);

}  // namespace hfshard
