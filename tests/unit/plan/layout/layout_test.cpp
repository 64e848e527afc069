#include "plan/layout/layout.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/layout/split_arrays.h"
#include "plan/layout/unit.h"
#include "support/catch_error.h"
#include "unit/plan/unread_arrays.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Two layers of [8, 6], each compressed in one piece.
class TwoLayers final : public UnreadArrays {
 public:
  TwoLayers() { add_compressed({8, 6}, {"layers.0", "layers.1"}); }
};

// Returns the totals of a leaf of both layers, transposed.
LayoutTotals totals_of_layers(const Shape& chunk) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "layers";
  leaf.shape = {2, 6, 8};
  Transfer& transfer = compiled.transfers.emplace_back();
  transfer.loops = {{2, 48}};
  transfer.sources = {0, 1};
  transfer.source_shape = {8, 6};
  transfer.map.digits = {{6, 1, 8}, {8, 6, 1}};
  const auto model = make_model(std::make_shared<TwoLayers>(), std::move(compiled));
  const Limits limits;
  CutLeaves leaves;
  leaves.split = split_arrays(*model, std::vector<std::uint32_t>{0, 1}, limits);
  const Grid grid{model->leaves[0].shape, chunk, chunk};
  PieceForm form;
  form.cell_bytes = 2 * chunk.numel();
  leaves.grids.push_back(grid);
  leaves.units.push_back(
      make_unit_form(model->leaves[0], grid, model->leading_to(0), form, limits));
  return Layout(model, leaves, limits, false).totals();
}

// All arrays that a unit reads are unpacked at the same time.
TEST(Layout, TheDiskForUnpackedArraysIsThatOfAllArraysOfAUnit) {
  const std::uint64_t layer_bytes = 2 * 8 * 6;
  EXPECT_EQ(totals_of_layers({1, 6, 4}).unpacked_bytes, layer_bytes);
  EXPECT_EQ(totals_of_layers({2, 6, 4}).unpacked_bytes, 2 * layer_bytes);
}

TEST(Layout, APlanHasAtMost268435456Groups) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  compiled.leaves.resize(1);
  const auto model = make_model(std::make_shared<TwoLayers>(), std::move(compiled));
  CutLeaves leaves;
  leaves.grids.push_back(Grid{});
  UnitForm unit;
  unit.groups = (1U << 28) + 1;
  leaves.units.push_back(unit);
  const Error error = catch_error([&] { Layout(model, leaves, {}, false); });
  EXPECT_EQ(error.code(), ErrorCode::limit);
  EXPECT_EQ(error.sentence(),
            "the output has 268435457 groups of chunks, and a plan holds at most 268435456");
  EXPECT_EQ(error.hint_text(), "pass a larger --chunk-bytes");
}

}  // namespace
}  // namespace hfshard
