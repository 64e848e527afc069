#pragma once

#include <string>

#include "service/described.h"

namespace hfshard {

/// Checks whether only the rows of the vocabulary differ between a tree and a config's model.
/// `described`: the model, from describe_model for `mapping`. Throws: bad_input, which names both
/// sizes, `vocab_size`, and --vocab if it helps.
void check_vocabulary(const Catalog& tree, const Described& described,
                      const std::string& config_text, const std::string& config_name,
                      const MappingOptions& mapping);

}  // namespace hfshard
