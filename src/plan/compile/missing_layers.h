#pragma once

#include <string>
#include <vector>

namespace hfshard {

/// Returns that a checkpoint has nothing of some layers, and the number of layers in the config.
/// Empty if each layer or none has a tensor. `wanted`: names of all tensors of the model, which
/// have their layers' numbers in them; `missing`: those that the checkpoint lacks.
std::string missing_layers(const std::vector<std::string>& wanted,
                           const std::vector<std::string>& missing);

}  // namespace hfshard
