#pragma once

#include "base/json.h"
#include "mapping/load_reader.h"

namespace hfshard {

/// A family's `sizes` in full: model name -> facts of its config.json. Written as such, or short:
/// `keys` and one list of values for each of `models`, `all` for what they have in common.
/// Throws: bad_input (a list of another length than `keys`, an unknown model).
Json expand_sizes(const JsonAt& at);

}  // namespace hfshard
