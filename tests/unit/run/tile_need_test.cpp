// What a tile reserves is exact: its region, and the scratch of its greediest unit.

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
      const UnitForm& form = plan.units[plan.group_of(unit).leaf];
      region += form.region_bytes();
      scratch = std::max(scratch, form.scratch_bytes);
      largest = std::max(largest, form.region_bytes() + form.scratch_bytes);
    }
    EXPECT_GT(scratch, 0U);
    EXPECT_EQ(tile.need_bytes, region + scratch);
  }
  EXPECT_EQ(plan.totals.largest_need_bytes, largest);
}

}  // namespace
}  // namespace hfshard
