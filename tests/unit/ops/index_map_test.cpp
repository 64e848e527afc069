#include "ops/index_map.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "unit/ops/reference.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using reference::Pair;
using reference::pairs;
using reference::pick;
using reference::Random;
using reference::random_rule;
using reference::Rule;

constexpr std::uint64_t kSeed = 20240613;
constexpr int kRounds = 2000;

/// Converts a row-major offset to coordinates.
Shape coordinates(std::uint64_t offset, const Shape& shape) {
  Shape out = shape;
  for (std::size_t axis = shape.rank(); axis-- > 0;) {
    out[axis] = offset % shape[axis];
    offset /= shape[axis];
  }
  return out;
}

bool inside(const Shape& at, const Box& box) {
  for (std::size_t axis = 0; axis < at.rank(); ++axis) {
    if (at[axis] < box.begin[axis] || at[axis] >= box.begin[axis] + box.extent[axis]) return false;
  }
  return true;
}

Box random_box(Random& random, const Shape& shape) {
  Box box{shape, shape};
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    box.begin[axis] = pick(random, 0, shape[axis] - 1);
    box.extent[axis] = pick(random, 0, shape[axis] - box.begin[axis]);
  }
  return box;
}

/// Returns the same relation in another form: digits split, reversed, shuffled, with digits of
/// extent 1.
IndexMap rewritten(const IndexMap& map, Random& random) {
  std::vector<Digit> digits;
  IndexMap out{.src_base = map.src_base, .dst_base = map.dst_base, .digits = {}};
  for (const Digit& digit : map.digits) {
    std::uint64_t inner = pick(random, 1, digit.extent);
    if (digit.extent % inner != 0) inner = 1;
    const auto factor = static_cast<std::int64_t>(inner);
    digits.push_back({inner, digit.src_step, digit.dst_step});
    digits.push_back({digit.extent / inner, digit.src_step * factor, digit.dst_step * factor});
  }
  std::shuffle(digits.begin(), digits.end(), random);
  for (Digit& digit : digits) {
    if (random() % 4 == 0) {
      out.src_base += (digit.extent - 1) * static_cast<std::uint64_t>(digit.src_step);
      out.dst_base += (digit.extent - 1) * static_cast<std::uint64_t>(digit.dst_step);
      digit.src_step = -digit.src_step;
      digit.dst_step = -digit.dst_step;
    }
    out.digits.push_back(digit);
  }
  return out;
}

TEST(DigitList, HoldsSixteenDigitsAndRefusesMore) {
  DigitList digits;
  for (std::uint64_t i = 0; i < DigitList::kMax; ++i) digits.push_back({i, 0, 0});
  try {
    digits.push_back({});
    FAIL() << "a 17th digit was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
  digits.erase(3);
  EXPECT_EQ(digits.size(), 15U);
  EXPECT_EQ(digits[3].extent, 4U);
  digits.clear();
  EXPECT_TRUE(digits.empty());
  EXPECT_EQ(digits, DigitList());
}

TEST(DigitList, GrowsAndShrinksAcrossItsInlinePart) {
  for (std::uint64_t size = 1; size <= DigitList::kMax; ++size) {
    for (std::uint64_t removed = 0; removed < size; ++removed) {
      DigitList digits;
      std::vector<Digit> expected;
      for (std::uint64_t i = 0; i < size; ++i) {
        digits.push_back({i, 0, 0});
        expected.push_back({i, 0, 0});
      }
      while (removed < expected.size()) {
        digits.erase(removed);
        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(removed));
        ASSERT_TRUE(std::equal(digits.begin(), digits.end(), expected.begin(), expected.end()));
      }
      const DigitList copy = digits;
      digits.push_back({99, 0, 0});
      expected.push_back({99, 0, 0});
      ASSERT_TRUE(std::equal(digits.begin(), digits.end(), expected.begin(), expected.end()));
      EXPECT_EQ(copy.size() + 1, digits.size());
    }
  }
}

TEST(IndexMap, CountIsTheProductOfExtents) {
  EXPECT_EQ(IndexMap{}.count(), 1U);
  EXPECT_EQ((IndexMap{0, 0, {{3, 1, 1}, {4, 3, 3}}}).count(), 12U);
  EXPECT_EQ((IndexMap{0, 0, {{3, 1, 1}, {0, 3, 3}}}).count(), 0U);
  const std::uint64_t large = std::uint64_t{1} << 40;
  EXPECT_EQ((IndexMap{0, 0, {{large, 0, 0}, {large, 0, 0}}}).count(), ~std::uint64_t{0});
  EXPECT_EQ((IndexMap{0, 0, {{large, 0, 0}, {large, 0, 0}, {0, 0, 0}}}).count(), 0U);
}

TEST(IndexMap, InverseTwiceIsTheSameMap) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const IndexMap map = random_rule(random).map;
    EXPECT_EQ(inverse(inverse(map)), map);
    std::vector<Pair> swapped = pairs(inverse(map));
    for (Pair& pair : swapped) std::swap(pair.first, pair.second);
    std::sort(swapped.begin(), swapped.end());
    EXPECT_EQ(swapped, pairs(map));
  }
}

TEST(IndexMap, NormalizeKeepsTheRelationAndIsCanonical) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const IndexMap map = random_rule(random).map;
    const IndexMap canonical = normalize(map);
    ASSERT_EQ(pairs(canonical), pairs(map));
    EXPECT_EQ(normalize(canonical), canonical);
    EXPECT_EQ(normalize(rewritten(map, random)), canonical);
  }
}

TEST(IndexMap, NormalizeMergesWhatIsContiguousOnBothSides) {
  const IndexMap map{5, 7, {{4, 6, 6}, {2, 3, 3}, {3, 1, 1}, {1, 99, 99}}};
  EXPECT_EQ(normalize(map), (IndexMap{5, 7, {{24, 1, 1}}}));
  const IndexMap transposed{0, 0, {{4, 1, 6}, {2, 12, 3}, {3, 4, 1}}};
  EXPECT_EQ(normalize(transposed), (IndexMap{0, 0, {{4, 1, 6}, {6, 4, 1}}}));
}

TEST(IndexMap, NormalizeMakesAllEmptyMapsEqual) {
  const IndexMap empty{3, 4, {{2, 1, 1}, {0, 5, 5}}};
  EXPECT_EQ(normalize(empty), normalize(IndexMap{0, 0, {{0, 1, 2}, {7, 2, 1}}}));
  EXPECT_EQ(normalize(empty).count(), 0U);
}

TEST(IndexMap, NormalizeCountsRepeatedElementsUpward) {
  EXPECT_EQ(normalize({6, 1, {{3, -2, 0}}}), (IndexMap{2, 1, {{3, 2, 0}}}));
}

TEST(IndexMap, SplitByAxesTakesDigitsThatCountBackward) {
  EXPECT_EQ(split_by_axes({0, 5, {{6, 1, -1}}}, Shape{2, 3}),
            (IndexMap{5, 0, {{2, -3, 3}, {3, -1, 1}}}));
}

TEST(IndexMap, SplitByAxesUndoesNormalize) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Rule rule = random_rule(random);
    const IndexMap split = split_by_axes(normalize(rule.map), rule.dst_shape);
    ASSERT_EQ(pairs(split), pairs(rule.map));
    EXPECT_EQ(normalize(split), normalize(rule.map));
    const Shape strides = rule.dst_shape.strides();
    for (const Digit& digit : split.digits) {
      for (std::size_t axis = 0; axis < strides.rank(); ++axis) {
        const auto step = static_cast<std::uint64_t>(digit.dst_step);
        const bool crosses =
            step < strides[axis] && digit.extent > 1 && step * (digit.extent - 1) >= strides[axis];
        EXPECT_FALSE(crosses);
      }
    }
  }
}

TEST(IndexMap, SplitByAxesKeepsAStepThatDoesNotDivideItsAxis) {
  const IndexMap odd_columns{0, 0, {{4, 5, 5}, {3, 2, 2}}};
  EXPECT_EQ(split_by_axes(odd_columns, Shape{4, 5}), odd_columns);
}

TEST(IndexMap, SplitByAxesRefusesUnevenDigits) {
  const std::vector<IndexMap> uneven = {
      {0, 0, {{9, 1, 1}}},   // one and a half rows
      {0, 3, {{6, 1, 1}}},   // two halves of rows
      {0, 0, {{2, 1, 8}}},   // a diagonal
      {0, 0, {{2, 1, 24}}},  // beyond the end
      {0, 24, {}},
  };
  for (const IndexMap& map : uneven) {
    try {
      split_by_axes(map, Shape{4, 6});
      ADD_FAILURE() << "accepted a digit of extent " << map.count();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::internal);
    }
  }
}

TEST(RestrictTo, PartsAreExactlyTheElementsInTheBox) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Rule rule = random_rule(random);
    const Box box = random_box(random, rule.dst_shape);
    std::vector<IndexMap> parts;
    restrict_to(rule.map, rule.dst_shape, box, parts);
    std::vector<Pair> expected;
    for (const Pair& pair : pairs(rule.map)) {
      if (inside(coordinates(pair.second, rule.dst_shape), box)) expected.push_back(pair);
    }
    ASSERT_EQ(pairs(parts), expected);
  }
}

TEST(RestrictTo, BoxesOfAGridCoverTheMapExactly) {
  Random random(kSeed);
  for (int i = 0; i < kRounds / 10; ++i) {
    const Rule rule = random_rule(random);
    Box box{rule.dst_shape, rule.dst_shape};
    Shape chunk = rule.dst_shape;
    std::uint64_t boxes = 1;
    for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
      chunk[axis] = pick(random, 1, rule.dst_shape[axis]);
      boxes *= (rule.dst_shape[axis] + chunk[axis] - 1) / chunk[axis];
    }
    std::vector<IndexMap> parts;
    for (std::uint64_t b = 0; b < boxes; ++b) {
      std::uint64_t rest = b;
      for (std::size_t axis = 0; axis < chunk.rank(); ++axis) {
        const std::uint64_t count = (rule.dst_shape[axis] + chunk[axis] - 1) / chunk[axis];
        box.begin[axis] = rest % count * chunk[axis];
        box.extent[axis] = std::min(chunk[axis], rule.dst_shape[axis] - box.begin[axis]);
        rest /= count;
      }
      restrict_to(rule.map, rule.dst_shape, box, parts);
    }
    ASSERT_EQ(pairs(parts), pairs(rule.map));
  }
}

TEST(RestrictTo, RebasedPartsStandWhereTheBoxHasThem) {
  Random random(kSeed);
  for (int i = 0; i < kRounds; ++i) {
    const Rule rule = random_rule(random);
    const Box box = random_box(random, rule.dst_shape);
    std::vector<IndexMap> parts;
    restrict_to(rule.map, rule.dst_shape, box, parts);
    for (const IndexMap& part : parts) {
      std::vector<Pair> expected = pairs(part);
      for (Pair& pair : expected) {
        const Shape at = coordinates(pair.second, rule.dst_shape);
        pair.second = 0;
        for (std::size_t axis = 0; axis < at.rank(); ++axis) {
          pair.second = pair.second * box.extent[axis] + at[axis] - box.begin[axis];
        }
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(pairs(rebase_to_box(part, rule.dst_shape, box)), expected);
    }
  }
}

TEST(RestrictTo, InterleavedAxisHasHeadBodyAndTail) {
  // [(H t c) D] -> [D H (c t)] with H = 3, t = 2, c = 4, D = 5; the box takes rotary elements 3
  // to 6.
  const IndexMap map{0, 0, {{5, 1, 24}, {3, 40, 8}, {4, 5, 2}, {2, 20, 1}}};
  std::vector<IndexMap> parts;
  restrict_to(map, Shape{5, 3, 8}, Box{Shape{0, 1, 3}, Shape{5, 2, 4}}, parts);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].count(), 10U);
  EXPECT_EQ(parts[1].count(), 20U);
  EXPECT_EQ(parts[2].count(), 10U);
}

TEST(RestrictTo, RepeatedHeadsKeepTheirZeroStep) {
  // [(K h) D] -> [D (K r) h] with K = 2, h = 3, r = 2, D = 5.
  const IndexMap map{0, 0, {{5, 1, 12}, {2, 15, 6}, {2, 0, 3}, {3, 5, 1}}};
  std::vector<IndexMap> parts;
  restrict_to(map, Shape{5, 4, 3}, Box{Shape{1, 1, 0}, Shape{2, 2, 3}}, parts);
  std::vector<Pair> expected;
  for (const Pair& pair : pairs(map)) {
    const Shape at = coordinates(pair.second, Shape{5, 4, 3});
    if (at[0] >= 1 && at[0] < 3 && at[1] >= 1 && at[1] < 3) expected.push_back(pair);
  }
  EXPECT_EQ(pairs(parts), expected);
  // In the other direction, the target offset repeats.
  parts.clear();
  restrict_to(inverse(map), Shape{6, 5}, Box{Shape{3, 0}, Shape{1, 5}}, parts);
  std::uint64_t count = 0;
  for (const IndexMap& part : parts) count += part.count();
  EXPECT_EQ(count, 10U);
}

TEST(RestrictTo, ScalarsAndEmptyTensorsWork) {
  std::vector<IndexMap> parts;
  restrict_to(IndexMap{}, Shape{}, Box{}, parts);
  EXPECT_EQ(parts.size(), 1U);
  parts.clear();
  restrict_to(IndexMap{0, 0, {{0, 1, 1}}}, Shape{0}, Box{Shape{0}, Shape{0}}, parts);
  EXPECT_TRUE(parts.empty());
  restrict_to(IndexMap{2, 5, {}}, Shape{2, 3}, Box{Shape{1, 2}, Shape{1, 1}}, parts);
  ASSERT_EQ(parts.size(), 1U);
  EXPECT_EQ(parts[0], (IndexMap{2, 5, {}}));
  EXPECT_EQ(rebase_to_box(parts[0], Shape{2, 3}, Box{Shape{1, 2}, Shape{1, 1}}),
            (IndexMap{2, 0, {}}));
}

TEST(RestrictTo, RebasedMapsMayBeEmptyOrRepeatElements) {
  const Box box{Shape{0, 0}, Shape{0, 3}};
  EXPECT_EQ(rebase_to_box({0, 0, {{0, 3, 3}, {3, 1, 1}}}, Shape{0, 3}, box),
            normalize({0, 0, {{0, 1, 1}}}));
  const Box right{Shape{0, 1}, Shape{2, 2}};
  EXPECT_EQ(rebase_to_box({0, 1, {{2, 1, 3}, {2, 5, 0}}}, Shape{2, 3}, right),
            (IndexMap{0, 0, {{2, 1, 2}, {2, 5, 0}}}));
}

TEST(RestrictTo, MapThatLeavesItsAxisIsABug) {
  std::vector<IndexMap> parts;
  const Box box{Shape{0, 0}, Shape{4, 6}};
  EXPECT_THROW(restrict_to(IndexMap{0, 0, {{9, 1, 1}}}, Shape{4, 6}, box, parts), Error);
  EXPECT_THROW(restrict_to(IndexMap{0, 3, {{6, 1, 1}}}, Shape{4, 6}, box, parts), Error);
  const Box half{Shape{0, 0}, Shape{2, 6}};
  EXPECT_THROW(rebase_to_box(IndexMap{0, 0, {{3, 1, 6}}}, Shape{4, 6}, half), Error);
}

}  // namespace
}  // namespace hfshard
