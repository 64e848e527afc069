#pragma once

#include <memory>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"
#include "catalog/format.h"
#include "catalog/tree_structure.h"
#include "ops/transfer.h"
#include "service/tree_source.h"

#include "hfshard/mapping.h"

namespace hfshard {

/// Returns the tree that the keys of a nested state form, for a source whose format has no
/// structure of its own (Catalog::nested). Returns nothing if all names equal their dotted paths.
std::shared_ptr<const TreeStructure> structure_of_keys(const Catalog& source);

/// Returns the keys of all names in a tree, for a format that keeps a nested state
/// (Catalog::nested). Empty for a tree without lists that hfshard wrote from a flat state, whose
/// keys were the dotted names. Only arrays count. Lists that have gaps without the other entries
/// become dicts, and get a note. So does a list at the root.
std::vector<NestedName> nested_of(const TreeStructure& whole, std::vector<std::string>& notes);

/// Copies the structure of a tree into a model whose leaves are the tree's arrays with their names:
/// kinds of nodes, empty nodes, strings. Applies --include and --exclude to it. Values that are
/// decoded replace the codes, under their own names. `structure`: of the whole tree, or null.
void keep_structure(const TreeStructure* structure, const MappingOptions& options,
                    const Catalog& source, CompiledModel& model);

/// The parts of a tree that a format without structure can't hold, by dotted paths; custom metadata
/// by key.
struct BeyondArrays {
  std::vector<std::string> nodes;  ///< strings and empty nodes
  std::vector<std::string> random_keys;
  std::vector<std::string> numbers;  ///< of Python
  std::vector<std::string> tuples;
  std::vector<std::string> custom_metadata;
};
/// Returns these parts, without the empty node `known_empty`.
BeyondArrays beyond_arrays(const TreeStructure& tree, const std::string& known_empty);

/// Removes the structure from a model, for a target that can't store it. Adds notes that name the
/// strings, the empty nodes, the tuples, the PRNG keys and Python's numbers, except `known`. Custom
/// metadata gets a note unless a record explains it.
void name_left_out(const TreeExtras& known, bool is_recorded, CompiledModel& model);

/// Names, for a target that has a model's arrays only, what else a tree holds: strings and
/// empty nodes, custom metadata. Parts without arrays of the model, such as an optimizer's state,
/// are named as such.
void name_beyond_model(const Catalog& tree, CompiledModel& model);

/// Makes a reshard copy the other items of the tree's step.
void keep_beside(Beside beside, TreeSource& tree, CompiledModel& model);

/// Throws: unsupported, if an item to be copied has the name that the tree gets.
void check_beside(const Catalog& tree, const std::string& item);

/// Adds a note that names the other items of the step, which the output won't have. `can_keep` says
/// whether --items all would copy them. Throws: io.
void name_other_items(const StorePath& place, const Choice& choice, bool can_keep,
                      CompiledModel& model);

}  // namespace hfshard
