#include "format/orbax/key_order.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "format/orbax/zarr/array.h"
#include "plan/layout/cut_grid.h"

namespace hfshard::format::orbax {
namespace {

std::vector<std::string> visited(const Shape& counts) {
  std::vector<std::string> out;
  for_each_chunk_by_key(counts,
                        [&](const Shape& chunk) { out.push_back(zarr::chunk_key({}, chunk)); });
  return out;
}

TEST(KeyOrder, NumbersFollowEachOtherAsTextForEveryCount) {
  for (std::uint64_t n = 1; n < 1200; n = n < 130 ? n + 1 : n + 97) {
    std::vector<std::string> expected;
    for (std::uint64_t i = 0; i < n; ++i) expected.push_back(std::to_string(i));
    std::ranges::sort(expected);
    std::vector<std::string> found{"0"};
    std::optional<std::uint64_t> at = 0;
    while ((at = next_decimal(*at, n))) found.push_back(std::to_string(*at));
    ASSERT_EQ(found, expected) << n;
  }
}

TEST(KeyOrder, NumbersNearTheTopDoNotWrap) {
  EXPECT_EQ(next_decimal(UINT64_MAX / 10, UINT64_MAX), UINT64_MAX / 10 * 10);
  EXPECT_EQ(next_decimal(UINT64_MAX / 10 + 1, UINT64_MAX), UINT64_MAX / 10 + 2);
  EXPECT_EQ(next_decimal(UINT64_MAX - 1, UINT64_MAX), UINT64_MAX / 10 + 1);
}

TEST(KeyOrder, ChunksOfRandomGridsComeInTheOrderOfTheirSortedKeys) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    Shape counts;
    std::uint64_t total = 1;
    for (std::uint64_t rank = random() % 5; rank > 0; --rank) {
      const std::uint64_t n = 1 + random() % (total > 500 ? 3 : 120);
      counts.push_back(n);
      total *= n;
    }
    const std::vector<std::string> found = visited(counts);
    ASSERT_EQ(found.size(), total);
    ASSERT_TRUE(std::ranges::is_sorted(found)) << to_string(counts);
    ASSERT_EQ(std::ranges::adjacent_find(found), found.end());
  }
}

TEST(KeyOrder, ScalarsHaveOneChunkAndEmptyArraysNone) {
  EXPECT_EQ(visited({}), std::vector<std::string>{"c"});
  EXPECT_TRUE(visited({0}).empty());
  EXPECT_TRUE(visited({3, 0, 2}).empty());
}

TEST(KeyOrder, ArraysAreOrderedByTheirWholeKeys) {
  EXPECT_TRUE(array_before("w.b", "w"));  // w.b/zarr.json < w/c/0
  EXPECT_FALSE(array_before("w", "w.b"));
  EXPECT_TRUE(array_before("w", "w0"));
  EXPECT_FALSE(array_before("w", "w"));
  EXPECT_TRUE(array_before("w", "w/c"));
  EXPECT_FALSE(array_before("w/c", "w"));
  const std::vector<std::string> letters{"a", "b", "-", ".", "/", "0", "~", "\xc3\xa9"};
  std::mt19937 random(5);
  for (int round = 0; round < 5000; ++round) {
    std::string a;
    std::string b;
    for (std::string* text : {&a, &b}) {
      for (std::size_t size = random() % 5; size > 0; --size) {
        *text += letters[random() % letters.size()];
      }
    }
    const auto whole = [](const std::string& name) {
      return name.ends_with('/') ? name : name + "/";
    };
    ASSERT_EQ(array_before(a, b), whole(a) < whole(b)) << a << " " << b;
  }
}

}  // namespace
}  // namespace hfshard::format::orbax
