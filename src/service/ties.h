#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"
#include "ops/transfer.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Makes a run compare the arrays of `tree` that the model's config ties, such as an output head
/// and the embedding. The model keeps both, but its loaders take only one. Does nothing for a
/// config of no known family, for arrays that --drop names, or if CompiledModel::claims isn't
/// empty.
void claim_ties(const Catalog& tree, const std::string& config_text, const std::string& config_name,
                const MappingOptions& mapping, CompiledModel& model);

/// Returns the tensors that are missing from `names` and tied to one of them. An embedding is, if
/// only the output head is stored. Empty for a config of no known family, or of one that
/// the rules don't have.
std::vector<SharedName> missing_twins(const std::vector<std::string>& names,
                                      const std::string& config_text,
                                      const MappingOptions& mapping);

/// Checks the files of a model for --untie. Throws: usage, if only the untied config misses a
/// tensor, which is then the head. `untied`: the source with that config.
void check_head(const Catalog& source, const Catalog& untied, MappingOptions mapping);

}  // namespace hfshard
