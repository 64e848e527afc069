#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mapping/bindings.h"
#include "mapping/table.h"

namespace hfshard {

/// What a scheme's loader is to be told to load a model, as NAME=VALUE: whether layers are stacked,
/// the first of `names`, how many layers there are if that was asked for, and what the notes that
/// hold demand, which counts more. Without the option that names the place (load_path_option).
/// Empty for a scheme whose loader is not known.
std::vector<std::string> load_words(const Scheme& scheme, const Bindings& model, bool stacked,
                                    const std::vector<std::string>& names,
                                    std::optional<std::uint64_t> layers);

}  // namespace hfshard
