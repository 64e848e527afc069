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

/// Returns whether a tree has an array for each leaf.
bool has_all(const Catalog& tree, const CompiledModel& model);

/// Returns the model of a config, in the scheme and layout with most of the tree's leaves; a
/// complete one comes first. `was`: the model that the tree was made from, if known. Throws:
/// bad_input, unsupported (in every scheme).
Described describe_model(const Catalog& tree, const std::string& config_text,
                         const std::string& config_name, MappingOptions mapping,
                         const Model* was = nullptr);

/// Does the same for a tree that has numbers where the model had codes. Then leaves
/// quantization_config out of `config_text`.
Described describe_numbers(const Catalog& tree, std::string& config_text,
                           const std::string& config_name, const MappingOptions& mapping);

/// Tensor names that a checkpoint of the config's model can have.
struct Naming {
  std::string head;  ///< optional keys above the names, ending in a dot
  /// Other keys above some of the names, such as "params.MoEBiasVar.". Optional like `head`.
  std::vector<std::string> collections;
  bool nnx = false;                ///< MaxText's, which has several forms
  bool files = false;              ///< of the model's files, or a dialect
  std::string about;               ///< whose they are: "torchtitan's"; empty for the files'
  std::vector<std::string> names;  ///< sorted
  /// For an earlier release's names: the present name for each of `names`. Otherwise empty.
  std::vector<std::string> present;
  /// Returns the model's present name for a name.
  const std::string& present_name(std::size_t i) const {
    return present.empty() ? names[i] : present[i];
  }
};
/// Returns the names in every scheme and dialect, and last the names of the model's files. Returns
/// nothing if no family knows the config.
std::vector<Naming> namings_of(const std::string& config_text, const std::string& config_name,
                               const MappingOptions& mapping);

/// Returns the config of the same model with unquantized weights.
std::string without_codes(const std::string& config_text, const std::string& name);

/// Returns the mapping from the names of a dialect of scheme "hf", which the tree has, to those of
/// the model's files. Returns nothing if the tree has other names or the files' names. `mapping`
/// counts except for scheme and layout. `was`: the model that the tree was made from, whose dtypes
/// return.
std::optional<CompiledModel> compile_from_dialect(const Catalog& tree,
                                                  const std::string& config_text,
                                                  const std::string& config_name,
                                                  const MappingOptions& mapping,
                                                  const Model* was = nullptr);

}  // namespace hfshard
