#include "plan/compile/pair.h"

#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

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
  const auto pair = [](DType source) {
    ModelSide left = side_with(DType::f32);
    Transfer& transfer = left.model.transfers.emplace_back();
    transfer.source_dtype = source;
    return pair_models(std::move(left), side_with(DType::bf16), true,
                       [](std::string_view) { return true; });
  };
  EXPECT_EQ(pair(DType::f32).unlike.size(), 0U);
  EXPECT_EQ(pair(DType::i64).unlike.size(), 1U);
}

}  // namespace
}  // namespace hfshard
