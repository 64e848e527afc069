#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "service/diff_sides.h"

#include "hfshard/convert.h"
#include "hfshard/diff.h"

namespace hfshard {

/// Compares the objects of two checkpoints, their places in the saved states, and the items of
/// their steps; adds differences to `out`. Returns the other trees that both steps have, by their
/// paths there, to be compared too. A note names objects without a counterpart, because the other
/// side is a model or has another format. Throws: cancelled, io.
std::vector<std::string> diff_objects(const DiffSide& a, const DiffSide& b,
                                      const std::function<bool(std::string_view)>& is_wanted,
                                      const RunOptions& run, DiffResult& out);

}  // namespace hfshard
