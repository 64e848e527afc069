#pragma once

#include <string>

#include "service/described.h"

namespace hfshard {

/// Checks whether one key of config.json explains why a tree has other sizes than the config's
/// model. `described`: the model, from describe_model for `mapping`. Throws: bad_input, which names
/// both sizes, the key, and --vocab if it helps.
void check_sizes(const Catalog& tree, const Described& described, const std::string& config_text,
                 const std::string& config_name, const MappingOptions& mapping);

}  // namespace hfshard
