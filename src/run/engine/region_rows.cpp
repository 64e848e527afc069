#include "run/engine/region_rows.h"

#include <algorithm>

#include "plan/layout/band.h"
#include "run/engine/row_hasher.h"

namespace hfshard {

void hash_region_rows(const Layout& layout, const UnitRef& ref, const UnitPart& part,
                      const std::vector<Cell>& cells, std::span<const std::byte> region,
                      std::span<std::byte> rows, std::span<std::byte> row, Digest128& sum) {
  const std::uint32_t index = layout.group_of(ref).leaf;
  const Leaf& leaf = layout.model().leaves[index];
  const std::size_t element = size_bits(leaf.dtype) / 8;
  const Transfer& transfer = layout.model().transfers[part.transfer];
  const RowHasher hasher(transfer, leaf.dtype);
  std::vector<IndexMap> pieces;
  // Handles many rows at a time, even if they are far apart in the source.
  const std::uint64_t length = row_length(transfer);
  RowCursor stored(part.map, length);
  BandCursor bands(without_holes(part.map, length), length, rows.size() / element, 0);
  while (const Band* band = bands.next()) {
    const auto bytes = rows.first(band->length * element);
    IndexMap local = band->map;
    local.src_base -= band->begin;
    gather(leaf, cells, local, region, bytes, pieces);
    hasher.add(band->map, band->begin, bytes, row, sum, &stored);
  }
}

}  // namespace hfshard
