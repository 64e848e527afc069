#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace hfshard {

/// The config.json of a model without its layers for multi-token prediction.
struct WithoutMtp {
  Json config;
  std::string key;  ///< first key that was set to 0
};

/// Empty if the config counts no such layers, or if one of these tensors is in such a layer. `mtp`
/// of common.json has the keys and the names.
std::optional<WithoutMtp> without_mtp(const Json& config, const std::vector<std::string>& names);

}  // namespace hfshard
