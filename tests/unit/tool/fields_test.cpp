#include "tool/fields.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Fields, HumanCountHasThreeDigitsUpToEachBorder) {
  EXPECT_EQ(human_count(999999), "999999");
  EXPECT_EQ(human_count(1000000), "1 M");
  EXPECT_EQ(human_count(99600000), "99.6 M");
  EXPECT_EQ(human_count(999400000), "999 M");
  EXPECT_EQ(human_count(999500000), "1 B");
  EXPECT_EQ(human_count(999400000000), "999 B");
  EXPECT_EQ(human_count(999500000000), "1 T");
  EXPECT_EQ(human_count(1000000000000000), "1000 T");
}

}  // namespace
}  // namespace hfshard
