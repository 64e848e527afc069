#include "plan/compile/pair.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "unit/plan/unread_arrays.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

class NoArrays final : public UnreadArrays {};

ModelSide side_with(DType dtype) {
  ModelSide out;
  out.checkpoint = std::make_shared<const NoArrays>();
  Leaf leaf;
  leaf.name = "w";
  leaf.shape = {4};
  leaf.dtype = dtype;
  out.model.leaves = {leaf};
  return out;
}

TEST(PairModels, ElementsOfHalfABytePairWithNothing) {
  for (const auto& [left, right] : {std::pair{DType::f4, DType::f4}, {DType::bf16, DType::f4}}) {
    const Error error = catch_error([&, a = left, b = right] {
      pair_models(side_with(a), side_with(b), false, [](std::string_view) { return true; });
    });
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_EQ(error.sentence(), "elements of f4 aren't whole bytes, so hfshard can't compare them");
    EXPECT_EQ(error.tensor(), "w");
  }
}

TEST(NarrowerDtype, IsTheOneThatHoldsLess) {
  EXPECT_EQ(narrower_dtype(DType::i32, DType::i32), DType::i32);
  EXPECT_EQ(narrower_dtype(DType::i32, DType::i64), std::nullopt);
  EXPECT_EQ(narrower_dtype(DType::bf16, DType::i32), std::nullopt);
  for (const auto& [a, b, narrow] : {std::tuple{DType::f64, DType::f32, DType::f32},
                                     {DType::f64, DType::bf16, DType::bf16},
                                     {DType::f32, DType::f16, DType::f16},
                                     {DType::bf16, DType::f16, DType::f32}}) {
    EXPECT_EQ(narrower_dtype(a, b), narrow);
    EXPECT_EQ(narrower_dtype(b, a), narrow);
  }
  EXPECT_EQ(narrower_dtype(DType::f64, DType::i32), std::nullopt);
  EXPECT_EQ(narrower_dtype(DType::i32, DType::f64), std::nullopt);
}

// A dtype of both is no use if a source can't become it.
TEST(PairModels, ADtypeThatASourceCannotBecomePairsNothing) {
  const auto pair = [](DType source, bool on_left) {
    ModelSide made = side_with(DType::f32);
    Transfer& transfer = made.model.transfers.emplace_back();
    transfer.source_dtype = source;
    ModelSide other = side_with(DType::bf16);
    if (!on_left) std::swap(made, other);
    return pair_models(std::move(made), std::move(other), true,
                       [](std::string_view) { return true; });
  };
  for (const bool on_left : {true, false}) {
    EXPECT_EQ(pair(DType::f32, on_left).unlike.size(), 0U);
    const ModelPair unlike = pair(DType::i64, on_left);
    ASSERT_EQ(unlike.unlike.size(), 1U);
    EXPECT_EQ(unlike.unlike[0].left.dtype, on_left ? DType::f32 : DType::bf16);
    EXPECT_TRUE(unlike.dtypes.empty());
    EXPECT_TRUE(unlike.left->leaves.empty());
  }
}

// Returns a side with an array `x` for each leaf, from which it is made.
ModelSide side_of(const std::vector<Leaf>& leaves) {
  ModelSide out;
  out.checkpoint = std::make_shared<const NoArrays>();
  out.model.leaves = leaves;
  for (std::uint32_t i = 0; i < leaves.size(); ++i) {
    Transfer& transfer = out.model.transfers.emplace_back();
    transfer.target = i;
    transfer.sources = {i};
    transfer.source_shape = leaves[i].shape;
    transfer.source_dtype = leaves[i].dtype;
    transfer.map = identity_map(leaves[i].shape);
  }
  return out;
}

Leaf paired_leaf(const std::string& name, const Shape& shape, DType dtype = DType::bf16) {
  Leaf out;
  out.name = name;
  out.shape = shape;
  out.dtype = dtype;
  return out;
}

bool every_name(std::string_view /*name*/) { return true; }

std::vector<std::string> names_in(const std::vector<Leaf>& leaves) {
  std::vector<std::string> out;
  for (const Leaf& leaf : leaves) out.push_back(leaf.name);
  return out;
}

using LeafNames = std::vector<std::string>;

TEST(PairModels, LeavesOfOneSideAreListedAndTheOthersNumberedAlike) {
  ModelSide left = side_of({paired_leaf("a", {2}), paired_leaf("b", {2}), paired_leaf("d", {2})});
  ModelSide right = side_of(
      {paired_leaf("b", {2}), paired_leaf("c", {2}), paired_leaf("d", {2}), paired_leaf("e", {2})});
  left.model.fills = {{0, 0, {}, 1.0}, {2, 0, {}, 2.0}};
  left.model.drops.emplace_back();
  const ModelPair pair = pair_models(std::move(left), std::move(right), false, every_name);
  EXPECT_EQ(names_in(pair.only_left), LeafNames{"a"});
  EXPECT_EQ(names_in(pair.only_right), (LeafNames{"c", "e"}));
  EXPECT_EQ(names_in(pair.left->leaves), (LeafNames{"b", "d"}));
  EXPECT_EQ(names_in(pair.right->leaves), (LeafNames{"b", "d"}));
  ASSERT_EQ(pair.left->transfers.size(), 2U);
  EXPECT_EQ(pair.left->transfers[1].target, 1U);
  EXPECT_EQ(pair.left->transfers[1].sources, (std::vector<std::uint32_t>{2}));
  ASSERT_EQ(pair.right->transfers.size(), 2U);
  EXPECT_EQ(pair.right->transfers[0].target, 0U);
  EXPECT_EQ(pair.right->transfers[0].sources, (std::vector<std::uint32_t>{0}));
  ASSERT_EQ(pair.left->fills.size(), 1U);
  EXPECT_EQ(pair.left->fills[0].target, 1U);
  EXPECT_EQ(pair.left->fills[0].scalar, 2.0);
  EXPECT_TRUE(pair.left->drops.empty());
  EXPECT_TRUE(pair.unlike.empty());
  EXPECT_EQ(pair.dtypes.size(), 2U);
}

TEST(PairModels, NamesThatAreNotWantedAreOnNoSide) {
  const auto pair =
      pair_models(side_of({paired_leaf("a", {2}), paired_leaf("x", {2}), paired_leaf("y", {2})}),
                  side_of({paired_leaf("b", {2}), paired_leaf("x", {2}), paired_leaf("y", {3})}),
                  false, [](std::string_view name) { return name == "y"; });
  EXPECT_TRUE(pair.only_left.empty());
  EXPECT_TRUE(pair.only_right.empty());
  EXPECT_TRUE(pair.left->leaves.empty());
  ASSERT_EQ(pair.unlike.size(), 1U);
  EXPECT_EQ(pair.unlike[0].left.shape, (Shape{2}));
  EXPECT_EQ(pair.unlike[0].right.shape, (Shape{3}));
}

TEST(PairModels, ADtypeOfBothIsUsedForValuesOnly) {
  const auto pair = [](bool values_only) {
    return pair_models(side_of({paired_leaf("w", {2}, DType::f32)}),
                       side_of({paired_leaf("w", {2}, DType::bf16)}), values_only, every_name);
  };
  const ModelPair bytes = pair(false);
  ASSERT_EQ(bytes.unlike.size(), 1U);
  EXPECT_EQ(bytes.unlike[0].left.dtype, DType::f32);
  EXPECT_EQ(bytes.unlike[0].right.dtype, DType::bf16);
  const ModelPair values = pair(true);
  EXPECT_TRUE(values.unlike.empty());
  EXPECT_EQ(values.left->leaves.at(0).dtype, DType::bf16);
  EXPECT_EQ(values.right->leaves.at(0).dtype, DType::bf16);
  ASSERT_EQ(values.dtypes.size(), 1U);
  EXPECT_EQ(values.dtypes[0].left, DType::f32);
  EXPECT_EQ(values.dtypes[0].right, DType::bf16);
}

// Layers of a stack that have another dtype than the leaf were cast.
TEST(PairModels, AStackWithLayersOfAnotherDtypeIsUnlikeOneWithout) {
  const auto side = [](const std::vector<DType>& layers) {
    ModelSide out = side_of({paired_leaf("w", {2, 2})});
    const Transfer layer = out.model.transfers[0];
    out.model.transfers.clear();
    for (const DType dtype : layers) {
      out.model.transfers.push_back(layer);
      out.model.transfers.back().source_dtype = dtype;
    }
    return out;
  };
  const auto unlike = [&](const std::vector<DType>& left, const std::vector<DType>& right,
                          bool values_only = false) {
    const ModelPair pair = pair_models(side(left), side(right), values_only, every_name);
    std::string out;
    for (const UnlikeLeaves& item : pair.unlike) {
      out =
          std::string(to_string(item.left.dtype)) + " " + std::string(to_string(item.right.dtype));
    }
    return out;
  };
  const std::vector<DType> plain{DType::bf16, DType::bf16};
  const std::vector<DType> mixed{DType::bf16, DType::f32};
  const std::vector<DType> cast{DType::f32, DType::f32};
  EXPECT_EQ(unlike(plain, plain), "");
  EXPECT_EQ(unlike(mixed, plain), "f32 bf16");
  EXPECT_EQ(unlike(plain, mixed), "bf16 f32");
  EXPECT_EQ(unlike(mixed, mixed), "");
  EXPECT_EQ(unlike({DType::bf16, DType::f32, DType::f32}, plain), "f32 bf16");
  EXPECT_EQ(unlike(cast, plain), "") << "all layers are alike";
  EXPECT_EQ(unlike(mixed, plain, true), "");
  const ModelPair wide =
      pair_models(side(mixed), side_of({paired_leaf("w", {2, 2}, DType::f32)}), false, every_name);
  ASSERT_EQ(wide.unlike.size(), 1U) << "the leaves have two dtypes already";
  EXPECT_EQ(wide.unlike[0].left.dtype, DType::bf16);
}

TEST(PairModels, TheStackOfEitherSideIsThatOfThePair) {
  Leaf stacked = paired_leaf("w", {2, 3});
  stacked.stacked = {true, false};
  for (const bool on_left : {true, false}) {
    const ModelPair pair =
        pair_models(side_of({on_left ? stacked : paired_leaf("w", {2, 3})}),
                    side_of({on_left ? paired_leaf("w", {2, 3}) : stacked}), false, every_name);
    EXPECT_EQ(pair.left->leaves.at(0).stacked, stacked.stacked);
    EXPECT_EQ(pair.right->leaves.at(0).stacked, stacked.stacked);
  }
}

}  // namespace
}  // namespace hfshard
