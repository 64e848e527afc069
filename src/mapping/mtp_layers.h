#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace hfshard {

/// What config.json says of a model that is written without its layers of multi-token prediction.
struct WithoutMtp {
  Json config;
  std::string key;  ///< the first key that is 0 now
};

/// Nothing if the config counts none, or a tensor of these names is one of such a layer. `mtp` of
/// common.json has the keys and the names.
std::optional<WithoutMtp> without_mtp(const Json& config, const std::vector<std::string>& names);

}  // namespace hfshard
