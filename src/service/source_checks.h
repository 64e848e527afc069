#pragma once

#include <string>
#include <vector>

#include "bytes/store/store.h"
#include "catalog/catalog.h"

#include "hfshard/plan.h"

namespace hfshard {

/// Throws: usage, for --root with a checkpoint that hfshard made of a model, because its record
/// describes the whole tree. A reshard of another program's checkpoint has its subtrees.
void check_root(const StorePath& place, const std::string& root);

/// Throws: usage, for options that select files if the source is a tree of arrays.
void check_no_files(const StorePath& place, const FileGlobs& asked);

/// Throws: usage, for options of trees if the source is a model.
void check_no_tree(const StorePath& place, const TreeOptions& asked);

/// Throws: usage, for an export with options of a mapping that the checkpoint's record decides.
void check_recorded_options(const StorePath& place, const PlanOptions& options);

/// Throws: bad_input, if most arrays have no elements, because a trainer saved them without
/// gathering its shards. Arrays of a shape such as 0x64 are meant to be empty, and don't count.
void check_elements(const Catalog& source);
/// Adds a warning instead.
void warn_of_no_elements(const Catalog& source, std::vector<std::string>& warnings);

}  // namespace hfshard
