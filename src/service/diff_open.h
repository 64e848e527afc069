#pragma once

#include <string>

#include "service/diff_sides.h"

#include "hfshard/diff.h"
#include "hfshard/hub.h"

namespace hfshard {

/// Returns a name whose place is found without notes, since they were told already.
SourceName without_notes(SourceName name);

/// Finds the place of a checkpoint. Throws: not_found (an unfinished run), as find_place and
/// read_step.
DiffSide find_side(const SourceName& name, Reporter& reporter);

/// Opens a checkpoint that find_side found by this name; reads only metadata. `options.items`: for
/// a step that doesn't select a tree itself. Arrays that can't be read and that --exclude selects
/// are left out, with a note. Throws: as inspect. `other`: the other checkpoint. If it isn't a
/// model, and this is a step with several trees of which none is selected, takes the usual tree or
/// the first.
DiffSide open_side(DiffSide found, const SourceName& name, const SourceName& other,
                   const DiffOptions& options);

/// Opens another tree of the same step, by its path there.
DiffSide open_other_tree(const DiffSide& side, const std::string& tree, const DiffOptions& options);

}  // namespace hfshard
