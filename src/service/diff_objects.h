#pragma once

#include <functional>
#include <string_view>

#include "service/diff_sides.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"

namespace hfshard {

/// Compares the objects of two checkpoints, and their places in the saved states; adds differences
/// to `out`. A note names objects without a counterpart, because the other side is a model or has
/// another format. Throws: cancelled, io.
void diff_objects(const DiffSide& a, const DiffSide& b,
                  const std::function<bool(std::string_view)>& is_wanted, const RunOptions& run,
                  DiffResult& out);

}  // namespace hfshard
