#pragma once

#include "catalog/format.h"

namespace hfshard::format::null {

/// Returns a format that discards its data: raw chunks, no metadata, nothing to open. For benches
/// and memory tests.
const Format& null_format();

}  // namespace hfshard::format::null
