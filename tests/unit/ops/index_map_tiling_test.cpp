#include <gtest/gtest.h>

#include "ops/index_map.h"
#include "unit/ops/reference.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

using reference::pick;
using reference::Random;
using reference::random_rule;
using reference::Rule;

constexpr std::uint64_t kTilingSeed = 977;

/// Returns a run of the target side.
IndexMap run(std::uint64_t begin, std::uint64_t size) { return {0, begin, {{size, 1, 1}}}; }

TEST(TilesExactly, WholeTensorsScalarsAndEmptyTensors) {
  EXPECT_FALSE(tiles_exactly(1, std::vector<IndexMap>{{}}, Side::target).found);
  EXPECT_FALSE(tiles_exactly(0, std::vector<IndexMap>{}, Side::target).found);
  EXPECT_FALSE(tiles_exactly(0, std::vector{run(0, 0)}, Side::target).found);
  EXPECT_FALSE(tiles_exactly(12, std::vector{run(0, 12)}, Side::target).found);
  const IndexMap transpose{0, 0, {{3, 1, 4}, {4, 3, 1}}};
  EXPECT_FALSE(tiles_exactly(12, std::vector{transpose}, Side::target).found);
  EXPECT_FALSE(tiles_exactly(12, std::vector{transpose}, Side::source).found);
}

TEST(TilesExactly, HoleOverlapAndExcessAreNamed) {
  const TilingFault uncovered = tiles_exactly(12, std::vector<IndexMap>{}, Side::target);
  EXPECT_TRUE(uncovered.found);
  EXPECT_EQ(uncovered.element, 0U);
  EXPECT_EQ(uncovered.times, 0U);

  const TilingFault hole = tiles_exactly(12, std::vector{run(7, 5), run(0, 6)}, Side::target);
  EXPECT_TRUE(hole.found);
  EXPECT_EQ(hole.element, 6U);
  EXPECT_EQ(hole.times, 0U);

  const TilingFault twice =
      tiles_exactly(12, std::vector{run(0, 3), run(5, 7), run(3, 3)}, Side::target);
  EXPECT_TRUE(twice.found);
  EXPECT_EQ(twice.element, 5U);
  EXPECT_EQ(twice.times, 2U);
  EXPECT_EQ(twice.map_index, 1U);

  const TilingFault beyond = tiles_exactly(12, std::vector{run(0, 6), run(6, 7)}, Side::target);
  EXPECT_TRUE(beyond.found);
  EXPECT_EQ(beyond.element, 12U);
  EXPECT_EQ(beyond.map_index, 1U);

  const TilingFault before =
      tiles_exactly(12, std::vector<IndexMap>{{0, 3, {{12, 1, -1}}}}, Side::target);
  EXPECT_TRUE(before.found);
  EXPECT_GE(before.element, 12U);
}

TEST(TilesExactly, ZeroStepCoversAnElementSeveralTimes) {
  // [(K h) D] -> [D (K r) h] with K = 2, h = 3, r = 4, D = 5.
  const std::vector<IndexMap> maps{{0, 0, {{5, 1, 24}, {2, 15, 12}, {4, 0, 3}, {3, 5, 1}}}};
  EXPECT_FALSE(tiles_exactly(120, maps, Side::target).found);
  const TilingFault fault = tiles_exactly(30, maps, Side::source);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.times, 4U);
}

TEST(TilesExactly, TwoDigitsOfOneStepOverlap) {
  for (const std::uint64_t extent : {2U, 3U}) {
    // Three of four elements of each row, and the fourth.
    const std::vector<IndexMap> maps{{0, 0, {{3, 1, 1}, {extent, 4, 4}, {2, 4, 4}}},
                                     {0, 3, {{extent + 1, 1, 4}}}};
    const TilingFault fault = tiles_exactly(4 * (extent + 1), maps, Side::target);
    EXPECT_TRUE(fault.found);
    EXPECT_EQ(fault.element, 4U);
    EXPECT_EQ(fault.times, 2U);
  }
  // The map reaches each of three elements, and the second one twice.
  const TilingFault inside =
      tiles_exactly(3, std::vector<IndexMap>{{0, 0, {{2, 1, 1}, {2, 2, 1}}}}, Side::target);
  EXPECT_TRUE(inside.found);
  EXPECT_EQ(inside.element, 1U);
  EXPECT_EQ(inside.times, 2U);
}

TEST(TilesExactly, FusedQueryKeyValueWithWindows) {
  // [(K (r h)@0:(r+2)*h) D] and the two rules for key and value; K = 8, r = 5, h = 64, D = 4544.
  constexpr std::int64_t kHidden = 4544;
  constexpr std::int64_t kHead = 64;
  constexpr std::int64_t kGroup = 7 * kHead * kHidden;
  std::vector<IndexMap> maps{
      {0, 0, {{kHidden, 1, 1}, {8, kGroup, kGroup}, {5 * kHead, kHidden, kHidden}}},
      {5 * kHead * kHidden,
       5 * kHead * kHidden,
       {{8, kGroup, 0}, {kHead, kHidden, 0}, {kHidden, 1, 0}}},
      {6 * kHead * kHidden,
       6 * kHead * kHidden,
       {{8, kGroup, 0}, {kHead, kHidden, 0}, {kHidden, 1, 0}}},
  };
  EXPECT_FALSE(tiles_exactly(8 * kGroup, maps, Side::source).found);
  maps[2].src_base = maps[1].src_base;
  const TilingFault fault = tiles_exactly(8 * kGroup, maps, Side::source);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.times, 2U);
  EXPECT_EQ(fault.element, static_cast<std::uint64_t>(5 * kHead * kHidden));
  EXPECT_EQ(fault.map_index, 1U);
}

TEST(TilesExactly, InterleavedHalvesAndPads) {
  // [E D (F 0/2)] and [E D (F 1/2)]: E = 128, D = 2880, F = 2880.
  constexpr std::int64_t kRow = 2 * 2880;
  std::vector<IndexMap> maps{{0, 0, {{128, 2880 * kRow, 0}, {2880, kRow, 0}, {2880, 2, 0}}},
                             {1, 0, {{128, 2880 * kRow, 0}, {2880, kRow, 0}, {2880, 2, 0}}}};
  EXPECT_FALSE(tiles_exactly(128 * 2880 * kRow, maps, Side::source).found);
  maps.pop_back();
  const TilingFault hole = tiles_exactly(128 * 2880 * kRow, maps, Side::source);
  EXPECT_TRUE(hole.found);
  EXPECT_EQ(hole.element, 1U);
  EXPECT_EQ(hole.times, 0U);
  // [V@0:Vm D] with a fill at [pad@V:Vm D].
  const std::vector<IndexMap> padded{run(0, 151669 * 1024ULL),
                                     run(151669 * 1024ULL, 267 * 1024ULL)};
  EXPECT_FALSE(tiles_exactly(151936 * 1024ULL, padded, Side::target).found);
}

TEST(TilesExactly, OneMapPerExpertAndLayer) {
  // 256 experts, 58 layers, [e l D F] written [D F] per source, and the same with the stack axis
  // inside.
  constexpr std::uint64_t kExperts = 256;
  constexpr std::uint64_t kLayers = 58;
  constexpr std::int64_t kIn = 7168;
  constexpr std::int64_t kOut = 2048;
  std::vector<IndexMap> outside;
  std::vector<IndexMap> within;
  for (std::uint64_t e = 0; e < kExperts; ++e) {
    for (std::uint64_t l = 0; l < kLayers; ++l) {
      const std::uint64_t matrix = static_cast<std::uint64_t>(kIn * kOut);
      outside.push_back({0, (e * kLayers + l) * matrix, {{kIn, 1, kOut}, {kOut, kIn, 1}}});
      within.push_back({0,
                        (e * matrix * kLayers) + l * static_cast<std::uint64_t>(kOut),
                        {{kIn, 1, kOut * static_cast<std::int64_t>(kLayers)}, {kOut, kIn, 1}}});
    }
  }
  const std::uint64_t numel = kExperts * kLayers * static_cast<std::uint64_t>(kIn * kOut);
  EXPECT_FALSE(tiles_exactly(numel, outside, Side::target).found);
  EXPECT_FALSE(tiles_exactly(numel, within, Side::target).found);
  within[777] = within[776];
  const TilingFault fault = tiles_exactly(numel, within, Side::target);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.times, 2U);
  EXPECT_EQ(fault.element, within[776].dst_base);
}

// Steps of 2 across rows of 3, so no two rows are alike: {1, 4}, {0, 2}, and the rest by twos.
std::vector<IndexMap> irregular(std::uint64_t numel) {
  return {{0, 1, {{2, 1, 3}}},
          {0, 0, {{2, 1, 2}}},
          {0, 3, {{numel / 2 - 1, 1, 2}}},
          {0, 6, {{numel / 2 - 3, 1, 2}}}};
}

TEST(TilesExactly, OnlyLessThan2To20ElementsAreCounted) {
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;
  const TilingFault fault = tiles_exactly(kLeast, irregular(kLeast), Side::target);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.element, kLeast) << "none is known";
  EXPECT_EQ(fault.times, 0U);
}

TEST(TilesExactly, WhatIsTooIrregularIsCounted) {
  constexpr std::uint64_t kMany = 600'000;
  EXPECT_FALSE(tiles_exactly(kMany, irregular(kMany), Side::target).found);
  std::vector<IndexMap> maps = irregular(kMany);
  --maps[3].digits[0].extent;
  const TilingFault hole = tiles_exactly(kMany, maps, Side::target);
  EXPECT_TRUE(hole.found);
  EXPECT_EQ(hole.element, kMany - 2);
  EXPECT_EQ(hole.times, 0U);
  maps[3].dst_base = 8;
  maps.push_back(run(kMany - 2, 2));
  maps.push_back(run(6, 1));
  const TilingFault twice = tiles_exactly(kMany, maps, Side::target);
  EXPECT_TRUE(twice.found);
  EXPECT_EQ(twice.element, kMany - 2);
  EXPECT_EQ(twice.times, 2U);
  constexpr std::uint64_t kTooMany = 6'000'000;
  EXPECT_EQ(tiles_exactly(kTooMany, irregular(kTooMany), Side::target).element, kTooMany)
      << "unknown counts as a fault";
}

TEST(TilesExactly, RunsThatEndInsideRowsOfOthers) {
  // 10 rows of 7: a run of 2 rows and 3 elements, then columns of the rest.
  std::vector<IndexMap> maps{run(0, 17)};
  for (std::uint64_t c = 0; c < 7; ++c) {
    maps.push_back({0, c < 3 ? 21 + c : 14 + c, {{c < 3 ? 7U : 8U, 1, 7}}});
  }
  EXPECT_FALSE(tiles_exactly(70, maps, Side::target).found);
  maps[4].digits[0].extent = 7;
  const TilingFault fault = tiles_exactly(70, maps, Side::target);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.element, 66U);
  EXPECT_EQ(fault.times, 0U);
}

/// Cuts random boxes off, and returns the remaining target regions as maps with random digits.
std::vector<IndexMap> random_tiling(Random& random, const Rule& rule) {
  std::vector<IndexMap> out;
  Box box{rule.dst_shape, rule.dst_shape};
  Shape cut = rule.dst_shape;
  for (std::size_t axis = 0; axis < cut.rank(); ++axis) cut[axis] = pick(random, 0, cut[axis]);
  IndexMap whole;
  for (std::size_t axis = 0; axis < cut.rank(); ++axis) {
    const auto step = static_cast<std::int64_t>(rule.dst_shape.strides()[axis]);
    whole.digits.push_back({rule.dst_shape[axis], 0, step});
  }
  for (std::uint64_t corner = 0; corner < (1U << cut.rank()); ++corner) {
    for (std::size_t axis = 0; axis < cut.rank(); ++axis) {
      const bool upper = (corner >> axis & 1U) != 0;
      box.begin[axis] = upper ? cut[axis] : 0;
      box.extent[axis] = upper ? rule.dst_shape[axis] - cut[axis] : cut[axis];
    }
    restrict_to(whole, rule.dst_shape, box, out);
  }
  std::shuffle(out.begin(), out.end(), random);
  return out;
}

void expect_same_verdict(std::uint64_t numel, const std::vector<IndexMap>& maps, Side side) {
  const std::vector<std::uint64_t> times = reference::times_covered(numel, maps, side);
  bool exact = true;
  for (const std::uint64_t t : times) exact = exact && t == 1;
  const TilingFault fault = tiles_exactly(numel, maps, side);
  ASSERT_EQ(fault.found, !exact);
  if (!fault.found) return;
  ASSERT_LT(fault.element, numel);
  EXPECT_EQ(fault.times, times[fault.element]);
  EXPECT_NE(fault.times, 1U);
  if (fault.times > 0) {
    const auto own = reference::times_covered(numel, {maps.at(fault.map_index)}, side);
    EXPECT_GT(own[fault.element], 0U);
  }
}

TEST(TilesExactly, AgreesWithCountingOnRandomTilings) {
  Random random(kTilingSeed);
  for (int i = 0; i < 1000; ++i) {
    const Rule rule = random_rule(random, 4, 7);
    const std::uint64_t numel = rule.dst_shape.numel();
    std::vector<IndexMap> maps = random_tiling(random, rule);
    // Compares the rule with its restriction to the region that it covers.
    expect_same_verdict(numel, maps, Side::target);
    ASSERT_FALSE(tiles_exactly(numel, maps, Side::target).found);
    if (maps.empty()) continue;
    IndexMap& victim = maps[pick(random, 0, maps.size() - 1)];
    if (random() % 2 == 0 && victim.dst_base > 0) {
      --victim.dst_base;
    } else if (!victim.digits.empty()) {
      --victim.digits[pick(random, 0, victim.digits.size() - 1)].extent;
    } else {
      maps.push_back(victim);
    }
    expect_same_verdict(numel, maps, Side::target);
  }
}

TEST(TilesExactly, AgreesWithCountingOnSingleRules) {
  Random random(kTilingSeed + 1);
  for (int i = 0; i < 1000; ++i) {
    const Rule rule = random_rule(random, 4, 7);
    expect_same_verdict(rule.dst_shape.numel(), {rule.map}, Side::target);
    expect_same_verdict(rule.src_shape.numel(), {rule.map}, Side::source);
  }
}

TEST(TilesExactly, AgreesWithCountingOnSoupsOfMaps) {
  Random random(kTilingSeed + 2);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t numel = pick(random, 1, 60);
    std::vector<IndexMap> maps;
    for (std::uint64_t m = pick(random, 1, 5); m > 0; --m) {
      IndexMap map{0, pick(random, 0, numel - 1), {}};
      std::uint64_t last = map.dst_base;
      for (std::uint64_t d = pick(random, 0, 3); d > 0; --d) {
        const std::uint64_t extent = pick(random, 1, 5);
        const std::uint64_t step = pick(random, 0, 7);
        if (last + (extent - 1) * step >= numel) continue;
        last += (extent - 1) * step;
        map.digits.push_back({extent, 0, static_cast<std::int64_t>(step)});
      }
      maps.push_back(map);
    }
    expect_same_verdict(numel, maps, Side::target);
  }
}

TEST(TilesExactly, PeriodicRunsUnderOtherPeriodsNeedNoCounting) {
  // A run of 2^40 elements under a comb of step 8. The even half of rows above 2^39 is covered
  // twice.
  const std::uint64_t half = std::uint64_t{1} << 39;
  std::vector<IndexMap> maps{run(0, 2 * half), {0, half + 3, {{half / 8, 1, 8}}}};
  const TilingFault fault = tiles_exactly(2 * half, maps, Side::target);
  EXPECT_TRUE(fault.found);
  EXPECT_EQ(fault.times, 2U);
  // Eight combs and a run that ends in the middle of a row tile it.
  maps = {run(0, half + 3)};
  for (std::uint64_t c = 0; c < 8; ++c) {
    const std::uint64_t begin = half + c + (c < 3 ? 8 : 0);
    maps.push_back({0, begin, {{half / 8 - (c < 3 ? 1 : 0), 1, 8}}});
  }
  EXPECT_FALSE(tiles_exactly(2 * half, maps, Side::target).found);
}

TEST(TilesExactly, UndecidableStructuresSaySo) {
  // Steps 3 and 2 with long runs of both have no common period within the budget, and are too large
  // to count.
  const std::uint64_t numel = std::uint64_t{1} << 24;
  std::vector<IndexMap> maps{{0, 0, {{numel / 3, 1, 3}}}, {0, 1, {{numel / 2, 1, 2}}}};
  TilingFault fault = tiles_exactly(numel, maps, Side::target);
  EXPECT_TRUE(fault.found);
  // If it is small enough, the same structure is decided.
  maps = {{0, 0, {{3, 1, 3}}}, {0, 1, {{2, 1, 2}}}};
  fault = tiles_exactly(8, maps, Side::target);
  EXPECT_TRUE(fault.found);
  EXPECT_NE(fault.times, 1U);
}

TEST(TilesExactly, OffsetsThatOverflowAreOutside) {
  const auto far = std::int64_t{1} << 62;
  const IndexMap product{.digits = {{std::uint64_t{1} << 40, 1, std::int64_t{1} << 40}}};
  const IndexMap sum{.digits = {{3, 1, far}, {3, 3, far}}};
  for (const IndexMap& map : {product, sum}) {
    const TilingFault fault = tiles_exactly(8, {&map, 1}, Side::target);
    EXPECT_TRUE(fault.found);
    EXPECT_EQ(fault.element, UINT64_MAX);
    EXPECT_EQ(fault.times, 1U);
  }
}

}  // namespace
}  // namespace hfshard
