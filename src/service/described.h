#pragma once

#include <optional>
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

/// The config of the same model with weights that are numbers, not codes.
std::string without_codes(const std::string& config_text, const std::string& name);

/// The way back to the names of a model's files, of a tree that has those of a dialect of scheme
/// "hf"; nothing if it has others, or if they are the files'. Of `mapping`, all but scheme and
/// layout count. `was`: the model that the tree was made of, whose dtypes come back.
std::optional<CompiledModel> compile_from_dialect(const Catalog& tree,
                                                  const std::string& config_text,
                                                  const std::string& config_name,
                                                  const MappingOptions& mapping,
                                                  const Model* was = nullptr);

}  // namespace hfshard
