#include "catalog/grid.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "catalog/array.h"
#include "catalog/per_leaf.h"
#include "catalog/piece.h"

namespace hfshard {
namespace {

TEST(Grid, AWholeChunkHasNoEmptyDim) {
  EXPECT_EQ(whole_chunk({4, 0, 3}), (Shape{4, 1, 3}));
  EXPECT_EQ(whole_chunk({}), Shape{});
  EXPECT_EQ(chunk_counts({10, 0, 3}, {4, 1, 3}), (Shape{3, 0, 1}));
  EXPECT_EQ(chunk_counts({8}, {4}), Shape{2});
  EXPECT_EQ(chunk_counts({}, {}), Shape{});
}

TEST(Grid, AxesAreStoredInTheirOwnOrderUnlessAnotherIsGiven) {
  Grid grid{{2, 3}, {2, 3}, {2, 3}};
  EXPECT_FALSE(grid.has_inner());
  EXPECT_EQ(storage_order(grid), (std::vector<std::uint8_t>{0, 1}));
  grid.inner = {1, 3};
  EXPECT_TRUE(grid.has_inner());
  grid.order = {1, 0};
  EXPECT_EQ(storage_order(grid), (std::vector<std::uint8_t>{1, 0}));
}

TEST(Grid, StridesFollowTheOrderOfAxes) {
  EXPECT_EQ(stored_strides({2, 3, 4}, {}), (Shape{12, 4, 1}));
  EXPECT_EQ(stored_strides({2, 3, 4}, {2, 0, 1}), (Shape{3, 1, 6}));
  EXPECT_EQ(stored_strides({2, 3, 4}, {2, 1, 0}), (Shape{1, 2, 6}));
  EXPECT_EQ(stored_strides({}, {}), Shape{});
}

TEST(Grid, EveryPieceIsVisitedRowByRowUntilOneSaysStop) {
  const auto visited = [](const Shape& counts, std::size_t most) {
    std::vector<std::string> out;
    const std::function<bool(const Shape&)> visit = [&](const Shape& chunk) {
      out.push_back(to_string(chunk));
      return out.size() < most;
    };
    for_each_chunk(counts, visit);
    return out;
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(visited({2, 3}, 99), (Pieces{"0x0", "0x1", "0x2", "1x0", "1x1", "1x2"}));
  EXPECT_EQ(visited({2, 3}, 4), (Pieces{"0x0", "0x1", "0x2", "1x0"}));
  EXPECT_EQ(visited({1, 1}, 99), Pieces{"0x0"});
  EXPECT_EQ(visited({}, 99), Pieces{"scalar"});
  EXPECT_EQ(visited({2, 0}, 99), Pieces{});
}

TEST(PerLeaf, EachLeafHasItsValue) {
  PerLeaf<std::string> values;
  EXPECT_TRUE(values.empty());
  for (int i = 0; i < 200; ++i) values.push_back(std::to_string(i % 3 == 0 ? 7 : i));
  ASSERT_EQ(values.size(), 200U);
  EXPECT_EQ(values[0], "7");
  EXPECT_EQ(values[99], "7");
  EXPECT_EQ(values[100], "100");
  EXPECT_EQ(values.back(), "199");
  values.push_back("100");
  EXPECT_EQ(values.back(), "100");
  values.clear();
  EXPECT_EQ(values.size(), 0U);
}

TEST(Leaf, ADimWithoutAnAxisHasAnEmptyOne) {
  Leaf leaf;
  leaf.axes = {"embed", ""};
  leaf.stacked = {true, false};
  EXPECT_EQ(leaf.axis(0), "embed");
  EXPECT_EQ(leaf.axis(1), "");
  EXPECT_EQ(leaf.axis(2), "");
  EXPECT_TRUE(leaf.is_stacked(0));
  EXPECT_FALSE(leaf.is_stacked(1));
  EXPECT_FALSE(leaf.is_stacked(2));
}

TEST(AxisOnMesh, NamesItsMeshAxes) {
  EXPECT_EQ(axis_on_mesh({"fsdp", "tensor"}), "mesh:fsdp+tensor");
  EXPECT_EQ(mesh_axes_of("mesh:fsdp+tensor"), (std::vector<std::string>{"fsdp", "tensor"}));
  EXPECT_EQ(mesh_axes_of("mesh:fsdp"), std::vector<std::string>{"fsdp"});
  for (const char* other : {"", "embed", "mesh:", "amesh:fsdp", "mesh"})
    EXPECT_EQ(mesh_axes_of(other), std::vector<std::string>{}) << other;
}

TEST(PieceForm, AChunkHasAHeadItsCellsAndATail) {
  PieceForm form;
  form.cell_bytes = 100;
  form.cells = 3;
  form.cell_suffix_bytes = 4;
  form.cell_growth_bytes = 20;
  form.head_bytes = 7;
  form.tail_bytes = 5;
  EXPECT_EQ(form.cell_step_bytes(), 124U);
  EXPECT_EQ(form.stored_bytes(), 7U + 3 * 124 + 5);
}

}  // namespace
}  // namespace hfshard
