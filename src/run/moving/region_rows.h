#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "plan/layout/layout.h"
#include "run/moving/cells.h"
#include "run/moving/unit_parts.h"

namespace hfshard {

/// Adds the rows of a part of a unit to `sum`, in the order of its source, gathered from the cells
/// that hold them. `rows` has room for a band of the source in the leaf's dtype (as much as it has
/// is used, a row at least), `row` for one row.
void hash_region_rows(const Layout& layout, const UnitRef& ref, const UnitPart& part,
                      const std::vector<Cell>& cells, std::span<const std::byte> region,
                      std::span<std::byte> rows, std::span<std::byte> row, Digest128& sum);

}  // namespace hfshard
