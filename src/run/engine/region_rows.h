#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.h"
#include "plan/layout/layout.h"
#include "run/engine/cells.h"
#include "run/engine/unit_parts.h"

namespace hfshard {

/// Adds the rows of a unit's part to `sum`, in the order of its source, gathered from their cells.
/// `rows` has room for a band of the source in the leaf's dtype, at least one row; all of it is
/// used. `row` has room for one row.
void hash_region_rows(const Layout& layout, const UnitRef& ref, const UnitPart& part,
                      const std::vector<Cell>& cells, std::span<const std::byte> region,
                      std::span<std::byte> rows, std::span<std::byte> row, Digest128& sum);

}  // namespace hfshard
