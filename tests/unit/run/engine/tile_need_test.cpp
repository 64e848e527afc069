// A tile reserves exactly what it needs: its region, and the scratch of its largest unit.

#include <algorithm>

#include <gtest/gtest.h>

#include "unit/run/run_support.h"

namespace hfshard {
namespace {

TEST(TileNeed, IsTheRegionAndTheLargestScratch) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("llama3.1", dir / "source"));
  TileCursor cursor(plan, 0, plan.end_address(), nullptr, UINT64_MAX);
  Tile tile;
  std::uint64_t largest = 0;
  while (cursor.next(tile)) {
    std::uint64_t region = 0;
    std::uint64_t scratch = 0;
    for (const UnitRef& unit : tile.units) {
      const UnitForm& form = plan.units()[plan.group_of(unit).leaf];
      region += form.region_bytes();
      scratch = std::max(scratch, form.scratch_bytes);
      largest = std::max(largest, form.region_bytes() + form.scratch_bytes);
    }
    EXPECT_GT(scratch, 0U);
    EXPECT_EQ(tile.need_bytes, region + scratch);
  }
  EXPECT_EQ(plan.totals().largest_need_bytes, largest);
}

// A tile that needs more than the arena has would wait forever. Units are merged up to the arena's
// size. A single unit can need as much as the plan states for one unit.
TEST(TileNeed, MergedUnitsStayWithinTheArena) {
  const TempDir dir;
  const Plan plan = small_plan(copy_fixture("llama3.1", dir / "source"));
  const std::uint64_t least = plan.totals().largest_need_bytes;
  std::uint64_t tiles_before = UINT64_MAX;
  for (const std::uint64_t arena : {least, least + 1, least + 4095, least + 4096, 2 * least,
                                    3 * least, 3 * least + 1, 5 * least}) {
    SCOPED_TRACE(arena);
    TileCursor cursor(plan, 0, plan.end_address(), nullptr, arena);
    Tile tile;
    std::uint64_t at = 0;
    std::uint64_t tiles = 0;
    while (cursor.next(tile)) {
      EXPECT_EQ(tile.begin_address, at);
      EXPECT_LE(tile.need_bytes, arena);
      at = tile.end_address;
      ++tiles;
    }
    EXPECT_EQ(at, plan.end_address());
    EXPECT_LE(tiles, tiles_before);
    tiles_before = tiles;
  }
  TileCursor measure(plan, 0, plan.end_address(), nullptr, UINT64_MAX);
  for (Tile tile; measure.next(tile);) {  // a tile that just fits is merged
    if (tile.units.size() < 2 || tile.need_bytes < least) continue;
    const std::uint64_t begin = tile.begin_address;
    Tile again;
    TileCursor fits(plan, begin, plan.end_address(), nullptr, tile.need_bytes);
    ASSERT_TRUE(fits.next(again));
    EXPECT_EQ(again.units, tile.units);
    TileCursor lacks(plan, begin, plan.end_address(), nullptr, tile.need_bytes - 1);
    ASSERT_TRUE(lacks.next(again));
    EXPECT_LT(again.units.size(), tile.units.size());
  }
}

}  // namespace
}  // namespace hfshard
