#pragma once

#include <string>
#include <vector>

#include "mapping/resolve/bindings.h"
#include "mapping/tables/table.h"

namespace hfshard {

/// Arguments with which a loader loads a model.
struct LoadAdvice {
  std::vector<std::string> names;     ///< equal models of the loader
  std::vector<std::string> words;     ///< arguments, except the checkpoint's place
  std::string note;                   ///< a sentence about them, or empty
  std::vector<std::string> warnings;  ///< what the loader computes differently
};

/// Compares the scheme's settings with the models of its loader. The arguments set the layout of
/// layers, the model that fits or is nearest, and every setting that differs from that model's.
/// Without a model, they set all. If a loader accepts only names, a model must be the same. `uncut`
/// is the model with all its layers; it decides the names.
LoadAdvice load_advice(const Scheme& scheme, const Bindings& model, const Bindings& uncut,
                       bool stacked);

}  // namespace hfshard
