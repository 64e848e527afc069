#pragma once

#include "base/json.h"
#include "mapping/tables/load_reader.h"

namespace hfshard {

/// Returns a family's `sizes` in full: model name -> facts of its config.json. The short form has
/// `keys` with one list of values for each of `models`, and `all` for shared facts.
/// Throws: bad_input (a list with another length than `keys`, an unknown model).
Json expand_sizes(const JsonAt& at);

}  // namespace hfshard
