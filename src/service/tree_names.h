#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/checkpoint.h"
#include "plan/compile/model.h"
#include "service/complete.h"

#include "hfshard/mapping.h"
#include "hfshard/plan.h"

namespace hfshard {

/// Finds the model of a config in another program's tree: below some key, inside wrappers, or in a
/// form that MaxText's trainers write. Returns the tree with the model's names and notes on the
/// changes, or the unchanged tree if it needs none. Throws: usage, if the tree has the model more
/// than once.
std::shared_ptr<const Checkpoint> with_model_names(std::shared_ptr<const Checkpoint> tree,
                                                   const TreeOptions& asked,
                                                   const MappingOptions& mapping);

/// Returns the words for a place in a tree: `below "base"` for the prefix `base.`, or `at the top`.
std::string words_for_place(std::string_view prefix);

/// Returns the schemes that a tree's names give evidence for (loader_sign), whatever program wrote
/// it.
std::vector<SchemeSummary> schemes_of_names(const Catalog& tree);

/// The key below which MaxText's pretraining saves variables that aren't parameters, such as a
/// router's bias. Source: AI-Hypercomputer/maxtext src/maxtext/common/ train_state_nnx.py
/// to_checkpoint_dict.
inline constexpr std::string_view kAside = "nnx_aux.model.";

/// Returns the name that the model of a config has for each array of a tree, in whatever form a
/// trainer writes it. The arrays that an optimizer keeps for a weight get that weight's name, and
/// those that the model doesn't know keep their own.
std::vector<std::string> names_in_model(const Catalog& tree, const TreeOptions& asked,
                                        const MappingOptions& mapping);

/// Returns whether more names of a tree match the model's files than any scheme.
bool has_names_of_files(const Catalog& tree, const TreeOptions& asked,
                        const MappingOptions& mapping);

/// Throws: not_found, if most of a tree's names belong to a loader or a dialect and some of its
/// names are missing. The message names them in the tree's form.
void refuse_missing(const Catalog& tree, const TreeOptions& asked, const MappingOptions& mapping);

/// Checks that a tree with a dialect's names has the whole model, and returns what was found.
/// `made`: the tree under the files' names. Throws: as refuse_missing and check_complete.
Completeness check_undone(const Catalog& tree, const CompiledModel& made,
                          const std::string& config_text, const TreeOptions& asked,
                          const MappingOptions& mapping);

/// Returns the options with the config.json among a tree's files, if there is one and nothing else
/// names the model.
TreeOptions with_config_beside(const StorePath& place, TreeOptions asked);

}  // namespace hfshard
