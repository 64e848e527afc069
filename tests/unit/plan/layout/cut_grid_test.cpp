#include "plan/layout/cut_grid.h"

#include <gtest/gtest.h>

#include "catalog/piece.h"
#include "support/sizes.h"

namespace hfshard {
namespace {

Leaf make_leaf(Shape shape, std::vector<bool> stacked, DType dtype = DType::bf16) {
  Leaf leaf;
  leaf.name = "params.params.x";
  leaf.shape = shape;
  leaf.axes.assign(shape.rank(), "");
  leaf.stacked = std::move(stacked);
  leaf.dtype = dtype;
  return leaf;
}

TEST(Grid, OneLayerPerChunkAndTheMeshShardWhenThatReachesTheFloor) {
  const Leaf leaf = make_leaf({8192, 80, 28672}, {false, true, false});
  const Grid grid = cut_grid(leaf, {512, 80, 28672}, {1, 2, 0}, 64 * kMiB, {});
  // 16 shards: a chunk has at most 8 MiB, so the smallest divisor that fits cuts the unsharded
  // axis.
  EXPECT_EQ(grid.chunk, (Shape{512, 1, 7168}));
  EXPECT_EQ(grid.inner, grid.chunk);
}

TEST(Grid, GrowsAlongTheLayersUntilTheFloor) {
  const Leaf leaf = make_leaf({1024, 28, 3072}, {false, true, false});
  const Grid grid = cut_grid(leaf, {64, 28, 3072}, {1, 2, 0}, 64 * kMiB, {});
  EXPECT_EQ(grid.chunk, (Shape{64, 4, 3072}));
}

TEST(Grid, GrowsNoFurtherThanTheFloor) {
  const Leaf leaf = make_leaf({512, 8, 512}, {false, true, false});  // layers of half a floor
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {1, 0, 2}, 64 * kMiB, {}).chunk, (Shape{512, 2, 512}));
}

TEST(Grid, ALeafAsLargeAsTheFloorIsOneChunk) {
  const Leaf leaf = make_leaf({1024, 512}, {false, false});
  EXPECT_EQ(cut_grid(leaf, {64, 512}, {0, 1}, 64 * kMiB, {}).chunk, leaf.shape);
}

// If the smaller bound would cut below the floor, the larger one applies.
TEST(Grid, ManyShardsOfALeafMayHaveMoreInAllThanBeCutBelowTheFloor) {
  const Leaf leaf = make_leaf({32 * 64, 1 << 16}, {false, false});  // 32 shards of 8 MiB
  Limits limits;
  const auto rows_of = [&] {
    return cut_grid(leaf, {64, 1 << 16}, {0, 1}, 64 * kMiB, limits).chunk.numel() * 2;
  };
  EXPECT_EQ(rows_of(), 4 * kMiB);
  limits.fan_bytes = 32 * kMiB;
  EXPECT_EQ(rows_of(), 1 * kMiB);
  limits.fan_bytes = 32 * kMiB - 1;
  limits.fan_small_bytes = 64 * kMiB;
  EXPECT_EQ(rows_of(), 2 * kMiB);
}

// Layers come before experts, and experts before rows, in any leaf. This is the source's order.
TEST(Grid, TheOrderOfTheSourceIsThatOfItsLoopsAndThenOfItsSlowestDigits) {
  const Leaf leaf = make_leaf({5, 6, 3, 4}, {false, false, true, true});  // [rows, cols, e, l]
  Transfer transfer;
  transfer.source_shape = {6, 5};
  transfer.loops = {{4, 1}, {3, 4}};
  // The columns have two digits, with the slower one first or last.
  for (const bool slow_first : {true, false}) {
    const Digit slow{2, 15, 3 * 12};
    const Digit fast{3, 5, 12};
    transfer.map.digits = {slow_first ? slow : fast, slow_first ? fast : slow, {5, 7, 6 * 12}};
    EXPECT_EQ(source_order(leaf, &transfer), (std::vector<std::size_t>{3, 2, 1, 0}));
  }
  EXPECT_EQ(source_order(leaf, nullptr), (std::vector<std::size_t>{0, 1, 2, 3}));
}

TEST(Grid, SmallLeavesAreOneChunk) {
  const Leaf leaf = make_leaf({1024, 28}, {false, true});
  EXPECT_EQ(cut_grid(leaf, {512, 28}, {1, 0}, 64 * kMiB, {}).chunk, (Shape{1024, 28}));
}

TEST(Grid, Beyond32ShardsInnerChunksFollowTheMesh) {
  const Leaf leaf = make_leaf({16384, 126, 53248}, {false, true, false});
  const Grid grid = cut_grid(leaf, {256, 126, 53248}, {1, 2, 0}, 64 * kMiB, {});
  EXPECT_EQ(grid.chunk[0], 512U);
  EXPECT_EQ(grid.inner[0], 256U);
  EXPECT_EQ(grid.chunk[0] % grid.inner[0], 0U);
  EXPECT_TRUE(grid.has_inner());
}

TEST(Grid, TinyChunksAreCutSlowAxisFirstAndGrownAlongTheLayers) {
  const Leaf leaf = make_leaf({20, 3, 28}, {false, true, false});
  const Grid grid = cut_grid(leaf, {5, 3, 14}, {1, 2, 0}, 64, {});
  // 5 x 14 elements of 2 bytes. The slower axis is divided by 7, and then three layers fit in 64
  // bytes.
  EXPECT_EQ(grid.chunk, (Shape{5, 3, 2}));
}

// A layer has 20 bytes, and three of 64 bytes fit. Four would be needed for the floor.
TEST(Grid, LayersThatFitExactlyAreAllInOneChunk) {
  const Leaf leaf = make_leaf({5, 6, 2}, {false, true, false});
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {1, 0, 2}, 64, {}).chunk, (Shape{5, 3, 2}));
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {1, 0, 2}, 59, {}).chunk, (Shape{5, 2, 2}));
}

TEST(Grid, AnUnsplitAxisWithoutDivisorsHasARaggedLastChunk) {
  const Leaf leaf = make_leaf({151673, 1024}, {false, false});
  const Grid grid = cut_grid(leaf, {151673, 64}, {0, 1}, 64 * kMiB, {}, {false, true});
  // 16 shards: at most 8 MiB, so three parts of at most 65536 rows.
  EXPECT_EQ(grid.chunk, (Shape{50558, 64}));
  EXPECT_EQ(grid.inner, grid.chunk);
}

TEST(Grid, TheLastChunkOfAFewIsNotMostlyEmpty) {
  const Leaf leaf = make_leaf({37, 1 << 20}, {false, false});
  // 64 MiB are 32 rows, so there are two parts of 19 rows each.
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {0, 1}, 64 * kMiB, {}).chunk, (Shape{19, 1 << 20}));
  // Four parts of ten rows would add 8 % to the leaf, and so would five of eight.
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {0, 1}, 20 * kMiB, {}).chunk, (Shape{3, 1 << 20}));
}

TEST(Grid, ADivisorThatIsNearIsTaken) {
  const Leaf leaf = make_leaf({7 * 8191, 1024}, {false, false});
  EXPECT_EQ(cut_grid(leaf, leaf.shape, {0, 1}, 64 * kMiB, {}).chunk, (Shape{8191, 1024}));
}

TEST(Grid, AnAxisWhoseShardHasNoDivisorsIsLeftForTheLast) {
  const Leaf leaf = make_leaf({151706, 1024}, {false, false});
  const Grid grid = cut_grid(leaf, {75853, 64}, {0, 1}, 64 * kMiB, {}, {false, true});
  EXPECT_EQ(grid.chunk, (Shape{75853, 16}));
}

TEST(Grid, AShardThatCannotBeDividedMayMakeAChunkTooLarge) {
  const Leaf leaf = make_leaf({16 * 1000003}, {false}, DType::f32);
  EXPECT_EQ(cut_grid(leaf, {1000003}, {0}, kMiB, {}).chunk, (Shape{1000003}));
}

TEST(Grid, AcrossShardsOnlyWhereAUnitWouldNotFitInTheSlab) {
  const Leaf leaf = make_leaf({151706, 4096}, {false, false});
  const Grid grid = cut_grid(leaf, {75853, 256}, {0, 1}, 64 * kMiB, {}, {false, true});
  EXPECT_EQ(grid.chunk, (Shape{75853 / 32, 256}));
}

TEST(Grid, AxesThatAUnitDoesNotSpanAreCutUntilItFits) {
  const Leaf leaf = make_leaf({151936, 4096}, {false, false});
  const Grid grid = cut_grid(leaf, {75968, 4096}, {0, 1}, 64 * kMiB, {}, {false, true});
  EXPECT_EQ(grid.chunk, (Shape{18992, 1024}));
}

TEST(Grid, InnerChunksOfARaggedAxisAreWhole) {
  const Leaf leaf = make_leaf({151673, 4096}, {false, false});
  const Grid grid = cut_grid(leaf, {151673, 64}, {0, 1}, 64 * kMiB, {}, {false, true});
  EXPECT_EQ(grid.chunk, (Shape{15168, 128}));
  EXPECT_EQ(grid.inner, (Shape{15168, 64}));
}

TEST(Grid, InnerChunksAreWholeAlongAnAxisThatIsCutAcrossItsShards) {
  const Leaf leaf = make_leaf({151706, 4096}, {false, false});
  const Grid grid = cut_grid(leaf, {75853, 64}, {0, 1}, 64 * kMiB, {}, {false, true});
  EXPECT_EQ(grid.chunk, (Shape{75853 / 32, 256}));
  EXPECT_EQ(grid.inner, (Shape{75853 / 32, 64}));
}

TEST(Grid, InnerChunksThatAreSmallerThanTheirIndexAreLeftOut) {
  const Leaf leaf = make_leaf({1 << 20}, {false});
  EXPECT_EQ(cut_grid(leaf, {128}, {0}, 64 * kMiB, {}).inner, (Shape{128}));
  EXPECT_EQ(cut_grid(leaf, {64}, {0}, 64 * kMiB, {}).inner, (Shape{1 << 15}));
}

TEST(Grid, LayersWithoutDivisorsGrowToo) {
  const Leaf leaf = make_leaf({100003, 64}, {true, false});
  const Grid grid = cut_grid(leaf, {100003, 4}, {0, 1}, 64 * kMiB, {});
  EXPECT_GE(grid.chunk.numel() * 2, kMiB / 16);
  EXPECT_LE(chunk_counts(leaf.shape, grid.chunk)[0] * grid.chunk[0], 100003U * 17 / 16);
}

TEST(Grid, DivisorsOnBothSides) {
  EXPECT_EQ(divisors_near(12, 5).below, 4U);
  EXPECT_EQ(divisors_near(12, 5).enough, 6U);
  EXPECT_EQ(divisors_near(12, 6).enough, 6U);
  EXPECT_EQ(divisors_near(12, 1).enough, 1U);
  EXPECT_EQ(divisors_near(12, 13).enough, 12U);
  EXPECT_EQ(divisors_near(151673, 3).below, 1U);
  EXPECT_EQ(divisors_near(151673, 3).enough, 151673U);
  // Above 32 bits, only 1 and the number itself count.
  EXPECT_EQ(divisors_near(UINT32_MAX, 4).below, 3U);
  EXPECT_EQ(divisors_near(UINT32_MAX, 4).enough, 5U);
  EXPECT_EQ(divisors_near(std::uint64_t{UINT32_MAX} + 1, 4).below, 1U);
  EXPECT_EQ(divisors_near(std::uint64_t{UINT32_MAX} + 1, 4).enough, std::uint64_t{UINT32_MAX} + 1);
}

TEST(Grid, ShardsInNumbersWithoutSmallFactorsBecomeOne) {
  const Leaf leaf = make_leaf({65537 * 4096}, {false});
  const Grid grid = cut_grid(leaf, {4096}, {0}, 64 * kMiB, {});
  EXPECT_EQ(grid.chunk, (Shape{65537 * 256}));
  EXPECT_EQ(grid.inner, (Shape{256}));
}

TEST(Grid, ZeroDimsHaveNoChunks) {
  const Leaf leaf = make_leaf({0, 8}, {false, false});
  const Grid grid = cut_grid(leaf, {1, 8}, {0, 1}, 64 * kMiB, {});
  EXPECT_EQ(chunk_counts(leaf.shape, grid.chunk).numel(), 0U);
}

}  // namespace
}  // namespace hfshard
