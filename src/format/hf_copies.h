#pragma once

#include "catalog/catalog.h"
#include "format/hf_index.h"
#include "format/weight_files.h"

namespace hfshard::format {

/// Sorts the tensors of a catalog by name. If several files have a tensor, keeps the copy in the
/// file that `index` names. Without an index (nullptr), keeps the first copy if all have the same
/// bytes. Adds a note with the dropped copies. Throws: bad_input (copies that differ, or that can't
/// be compared), as Source::read_at.
void sort_tensors(Catalog& catalog, const HfIndex* index, const WeightFiles& kind);

}  // namespace hfshard::format
