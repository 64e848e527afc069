#include "plan/grid.h"

#include <gtest/gtest.h>

#include "plan/place.h"

namespace hfshard {
namespace {

Leaf make_leaf(Shape shape, std::vector<bool> stacked, DType dtype = DType::bf16) {
  Leaf leaf;
  leaf.path = "params.params.x";
  leaf.shape = shape;
  leaf.axes.assign(shape.rank(), "");
  leaf.stacked = std::move(stacked);
  leaf.dtype = dtype;
  return leaf;
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(Grid, OneLayerPerChunkAndTheMeshShardWhenThatReachesTheFloor) {
  const Leaf leaf = make_leaf({8192, 80, 28672}, {false, true, false});
  const Grid grid = cut_grid(leaf, {512, 80, 28672}, {1, 2, 0}, 64 * kMiB, {});
  // 16 shards: a chunk is at most 8 MiB, so the unsharded axis is cut by its smallest divisor that
  // fits.
  EXPECT_EQ(grid.chunk, (Shape{512, 1, 7168}));
  EXPECT_EQ(grid.inner, grid.chunk);
}

TEST(Grid, GrowsAlongTheLayersUntilTheFloor) {
  const Leaf leaf = make_leaf({1024, 28, 3072}, {false, true, false});
  const Grid grid = cut_grid(leaf, {64, 28, 3072}, {1, 2, 0}, 64 * kMiB, {});
  EXPECT_EQ(grid.chunk, (Shape{64, 4, 3072}));
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
  // 5 x 14 elements of 2 bytes: the slower axis is divided by 7; three layers then still fit 64
  // bytes.
  EXPECT_EQ(grid.chunk, (Shape{5, 3, 2}));
}

TEST(Grid, ZeroDimsHaveNoChunks) {
  const Leaf leaf = make_leaf({0, 8}, {false, false});
  const Grid grid = cut_grid(leaf, {1, 8}, {0, 1}, 64 * kMiB, {});
  EXPECT_EQ(chunk_counts(leaf.shape, grid.chunk).numel(), 0U);
}

}  // namespace
}  // namespace hfshard
