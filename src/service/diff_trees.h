#pragma once

#include <optional>

#include "service/diff_sides.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"

namespace hfshard {

/// Compares two trees as the models that they become. If only one has computed values, the other
/// becomes a tree of the same layout. Throws: as compile_model; usage (nothing tells which model a
/// tree belongs to).
SidesTogether two_trees(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

/// Compares two checkpoints in the main scheme's layout. Serves for the names of two releases of
/// one family. Returns nothing if the scheme doesn't have the model, or each checkpoint has leaves
/// that the other lacks. Throws: internal.
std::optional<SidesTogether> in_main_scheme(const DiffSide& a, const TreeOptions& asked_a,
                                            const DiffSide& b, const TreeOptions& asked_b);

}  // namespace hfshard
