#include "base/checked.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Checked, SumsAndProductsThatWrapAreNothing) {
  EXPECT_EQ(checked_add(1, 2), 3U);
  EXPECT_FALSE(checked_add(UINT64_MAX, 1));
  EXPECT_EQ(checked_mul(3, 4), 12U);
  EXPECT_FALSE(checked_mul(std::uint64_t{1} << 32, std::uint64_t{1} << 32));
}

TEST(Checked, InRangeDoesNotWrap) {
  EXPECT_TRUE(in_range(0, 0, 0));
  EXPECT_TRUE(in_range(4, 4, 8));
  EXPECT_FALSE(in_range(4, 5, 8));
  EXPECT_FALSE(in_range(9, 0, 8));
  EXPECT_FALSE(in_range(UINT64_MAX, 2, 8));
  EXPECT_FALSE(in_range(2, UINT64_MAX, 8));
}

TEST(Checked, RoundingAndDivision) {
  EXPECT_EQ(round_up(0, 4096), 0U);
  EXPECT_EQ(round_up(1, 4096), 4096U);
  EXPECT_EQ(round_up(4096, 4096), 4096U);
  EXPECT_EQ(ceil_div(7, 3), 3U);
}

}  // namespace
}  // namespace hfshard
