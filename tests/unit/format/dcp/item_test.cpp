#include "format/dcp/item.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace hfshard::format::dcp {
namespace {

using Order = std::vector<std::uint8_t>;

TEST(DcpItem, TheOrderOfAxesIsThatOfTheirStrides) {
  EXPECT_EQ(order_of({2, 3, 4}, {12, 4, 1}), (Order{0, 1, 2}));
  EXPECT_EQ(order_of({2, 3, 4}, {1, 2, 6}), (Order{2, 1, 0}));
  EXPECT_EQ(order_of({2, 3, 4}, {12, 1, 3}), (Order{0, 2, 1}));
  EXPECT_EQ(order_of({2, 3}, {4, 1}), (Order{0, 1})) << "gaps between rows";
  EXPECT_EQ(order_of({2, 3}, {1, 3}), (Order{0, 1})) << "gaps between columns";
  EXPECT_EQ(order_of({2, 3}, {0, 1}), (Order{0, 1})) << "an expanded axis";
}

// torch gives an axis with one element any stride.
TEST(DcpItem, TheStrideOfAnAxisWithOneElementDoesNotCount) {
  for (const std::uint64_t any : {0U, 1U, 2U, 3U, 7U, 100U}) {
    EXPECT_TRUE(is_packed({1, 2, 3}, {any, 3, 1}, {0, 1, 2})) << any;
    EXPECT_TRUE(is_packed({2, 3, 1}, {3, 1, any}, {0, 1, 2})) << any;
    EXPECT_FALSE(is_packed({2, 3, 1}, {4, 1, any}, {0, 1, 2})) << any;
    EXPECT_EQ(order_of({1, 3, 2}, {any, 1, 3}), (Order{0, 2, 1})) << any;
    EXPECT_EQ(order_of({1, 1, 3, 2}, {any, any, 1, 3}), (Order{0, 1, 3, 2})) << any;
    EXPECT_EQ(order_of({3, 1, 2}, {1, any, 3}), (Order{1, 2, 0})) << any;
  }
}

}  // namespace
}  // namespace hfshard::format::dcp
