#pragma once

#include <string>
#include <string_view>

#include "catalog/array.h"

namespace hfshard {

/// The default logical axis rules of a scheme, as text; of an unknown one, such as "hf", those of
/// MaxText.
std::string default_axis_rules(std::string_view scheme);

/// What the loader of a scheme looks for in a tree beside the arrays; nothing for an unknown one.
TreeExtras tree_extras(std::string_view scheme);

/// Names of the options that every load of a scheme's loader takes; empty for an unknown scheme.
struct LoaderOptions {
  std::string path;            ///< where the arrays are
  std::string stacked;         ///< whether layers are stacked
  std::string model;           ///< its name of the model
  std::string override_model;  ///< others may differ from what the named model has
  std::string layers;          ///< how many layers the decoder has
};
LoaderOptions loader_options(std::string_view scheme);

/// Name, in a checkpoint's metadata, of what says whether layers are stacked; of an unknown scheme,
/// MaxText's.
std::string stacked_flag(std::string_view scheme);

}  // namespace hfshard
