#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace hfshard {

/// A named model of a loader, with the settings that differ from the defaults.
struct LoaderModel {
  std::string name;
  const Json* settings = nullptr;
};

/// Facts about the models of a scheme's loader (mappings/loaders.json).
struct LoaderFacts {
  std::vector<LoaderModel> models;         ///< sorted by name
  const Json* defaults = nullptr;          ///< settings without a model, if known
  std::vector<std::string> whole_numbers;  ///< settings that must be whole

  /// Returns the value of a setting in a model, or the default for nullptr. Null if the loader
  /// lacks the setting.
  const Json* value(const Json* model, std::string_view setting) const;
};

/// Returns the facts. Empty for a scheme whose loader's models aren't known. Valid until the
/// program ends.
const LoaderFacts& loader_facts(std::string_view scheme);

}  // namespace hfshard
