#pragma once

#include "service/diff_sides.h"

namespace hfshard {

/// Compares two trees as the models that they become. If only one has computed values, the other
/// becomes a tree of the same layout. Throws: as compile_model; usage (nothing tells which model a
/// tree belongs to).
SidesTogether two_trees(const DiffSide& a, const DiffSide& b, const DiffOptions& options);

}  // namespace hfshard
