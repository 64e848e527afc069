#pragma once

#include <string>

#include "service/diff_sides.h"

#include "hfshard/diff.h"
#include "hfshard/hub.h"

namespace hfshard {

/// Opens a checkpoint; reads only metadata. `options.items`: for a step that doesn't select a tree
/// itself. Arrays that can't be read and that --exclude selects are left out, with a note. Throws:
/// as inspect.
/// `any_tree`: if the step has several trees, and none is selected, takes the usual or the first.
DiffSide open_side(const SourceName& name, const DiffOptions& options, bool any_tree,
                   Reporter& reporter);

/// Opens another tree of the same step, by its path there.
DiffSide open_other_tree(const DiffSide& side, const std::string& tree, const DiffOptions& options);

/// Returns whether a place holds a Hugging Face model rather than a tree. Throws: as inspect.
bool names_model(const SourceName& name);

}  // namespace hfshard
