#pragma once

#include <string>
#include <vector>

#include "mapping/bindings.h"
#include "mapping/table.h"

namespace hfshard {

/// The names under which a scheme's loader knows this model: sizes of the family that are like it
/// by Scheme::model_names, sorted, then the names that have a condition of their own.
std::vector<std::string> names_that_fit(const MappingTable& table, const Scheme& scheme,
                                        const Bindings& model);

}  // namespace hfshard
