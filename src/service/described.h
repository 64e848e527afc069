#pragma once

#include <string>

#include "catalog/catalog.h"
#include "plan/compile/compile_model.h"
#include "plan/compile/model.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// A model that only its config describes, and the tensors that it would have.
struct Described {
  Catalog catalog;
  CompiledModel model;
};

/// Whether a tree has an array for each leaf.
bool has_all(const Catalog& tree, const CompiledModel& model);

/// The model of a config, in the scheme and layout whose leaves the tree has; in the first ones if
/// it has those of none. `was`: the model that the tree was made of, where that is known. Throws:
/// bad_input, unsupported (in every scheme).
Described describe_model(const Catalog& tree, const std::string& config_text,
                         const std::string& config_name, MappingOptions mapping,
                         const Model* was = nullptr);

}  // namespace hfshard
