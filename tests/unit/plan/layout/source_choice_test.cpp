#include "plan/layout/source_choice.h"

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "unit/plan/unread_arrays.h"

namespace hfshard {
namespace {

// Two compressed arrays of [8, 6] in two pieces each. Reading the first one needs more memory.
class UnequalReaders final : public UnreadArrays {
 public:
  static constexpr std::uint64_t kMuch = 1 << 20;
  UnequalReaders() { add_compressed({4, 6}, {"a", "b"}); }
  std::uint64_t scratch_bytes(std::uint32_t array, PieceSteps /*steps*/) const override {
    return array == 0 ? kMuch : 0;
  }
};

// Returns the choice for a leaf of both arrays, whose transfers are in this order.
SourceChoice choice_of_both(const std::vector<std::uint32_t>& order, const SplitArrays& split) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "both";
  leaf.shape = {16, 6};
  for (const std::uint32_t array : order) {
    Transfer& transfer = compiled.transfers.emplace_back();
    transfer.sources = {array};
    transfer.source_shape = {8, 6};
    transfer.map.dst_base = array * 48U;
    transfer.map.digits = {{8, 6, 6}, {6, 1, 1}};
  }
  const auto model = make_model(std::make_shared<UnequalReaders>(), std::move(compiled));
  return choose_source(*model, model->leaves[0], model->leading_to(0), split, {});
}

std::uint64_t piece_scratch(const std::vector<std::uint32_t>& order) {
  const SourceChoice choice = choice_of_both(order, {});
  return choice.pieces ? choice.pieces->scratch_bytes : 0;
}

TEST(SourceChoice, TheMemoryForPiecesIsThatOfTheGreediestArray) {
  EXPECT_GE(piece_scratch({0, 1}), UnequalReaders::kMuch);
  EXPECT_EQ(piece_scratch({0, 1}), piece_scratch({1, 0}));
}

TEST(SourceChoice, TheMemoryForSplitArraysIsThatOfTheGreediestOne) {
  SplitArrays split;
  split.in_place = {0, 1};
  const SourceChoice choice = choice_of_both({0, 1}, split);
  EXPECT_FALSE(choice.pieces.has_value());
  EXPECT_TRUE(choice.refused.empty());
  EXPECT_GE(choice.split_scratch_bytes, UnequalReaders::kMuch);
  EXPECT_EQ(choice.split_scratch_bytes, choice_of_both({1, 0}, split).split_scratch_bytes);
}

TEST(SourceChoice, AnArrayOfSeveralCanBeSplitAlone) {
  SplitArrays split;
  split.in_place = {0};
  const SourceChoice choice = choice_of_both({0, 1}, split);
  EXPECT_EQ(choice.taken, std::vector<std::uint32_t>{1});
  ASSERT_TRUE(choice.pieces.has_value());
  EXPECT_LT(choice.pieces->scratch_bytes, UnequalReaders::kMuch);
  EXPECT_GE(choice.split_scratch_bytes, UnequalReaders::kMuch);
}

// The two arrays, whose first one may be unpacked and the second one read in place.
class ChoiceTest : public testing::Test {
 protected:
  SourceChoice choose(const SplitArrays& split, const IndexMap& map,
                      const Shape& leaf_shape) const {
    CompiledModel compiled;
    compiled.rules = {"rule"};
    Leaf& leaf = compiled.leaves.emplace_back();
    leaf.name = "one";
    leaf.shape = leaf_shape;
    Transfer& transfer = compiled.transfers.emplace_back();
    transfer.sources = {0};
    transfer.source_shape = {8, 6};
    transfer.map = map;
    const auto model = make_model(std::make_shared<UnequalReaders>(), std::move(compiled));
    return choose_source(*model, model->leaves[0], model->leading_to(0), split, {});
  }
  const IndexMap rows_{0, 0, {{8, 6, 6}, {6, 1, 1}}};
};

TEST_F(ChoiceTest, AnArrayThatIsSplitIsNotTakenByPieces) {
  const SourceChoice pieces = choose({}, rows_, {8, 6});
  EXPECT_EQ(pieces.taken, std::vector<std::uint32_t>{0});
  ASSERT_TRUE(pieces.pieces.has_value());
  EXPECT_EQ(pieces.pieces->window, (Shape{4, 6}));
  EXPECT_EQ(pieces.split_scratch_bytes, 0U);
  EXPECT_TRUE(pieces.refused.empty());
  SplitArrays split;
  split.in_place = {0};
  const SourceChoice placed = choose(split, rows_, {8, 6});
  EXPECT_TRUE(placed.taken.empty());
  EXPECT_FALSE(placed.pieces.has_value());
  EXPECT_GE(placed.split_scratch_bytes, UnequalReaders::kMuch);
}

TEST_F(ChoiceTest, AnArrayThatIsUnpackedByRowsIsReadLikeAFile) {
  SplitArrays split;
  UnpackedForm& form = split.unpacked.emplace_back();
  form.row_major = true;
  const SourceChoice choice = choose(split, rows_, {8, 6});
  EXPECT_TRUE(choice.taken.empty());
  EXPECT_TRUE(choice.refused.empty());
  EXPECT_FALSE(choice.pieces.has_value());
  EXPECT_EQ(choice.split_scratch_bytes, 0U);
}

// A decoder reads scales in any order.
TEST(SourceChoice, ScalesInPiecesAreSplit) {
  CompiledModel compiled;
  compiled.rules = {"rule"};
  Leaf& leaf = compiled.leaves.emplace_back();
  leaf.name = "decoded";
  leaf.shape = {8, 6};
  Transfer& transfer = compiled.transfers.emplace_back();
  transfer.sources = {0};
  transfer.source_shape = {8, 6};
  transfer.source_dtype = DType::f8_e4m3;
  transfer.map.digits = {{8, 6, 6}, {6, 1, 1}};
  transfer.decode =
      std::make_shared<const Decode>(Decode{{Code::f8_e4m3, DType::f32, 8, 6, 1, 1}, {1}});
  const auto model = make_model(std::make_shared<UnequalReaders>(), std::move(compiled));
  const auto refused = [&](const std::vector<std::uint32_t>& split) {
    SplitArrays arrays;
    arrays.in_place = split;
    return choose_source(*model, model->leaves[0], model->leading_to(0), arrays, {}).refused;
  };
  EXPECT_EQ(refused({}), (std::vector<std::uint32_t>{1, 0}));
  EXPECT_EQ(refused({0}), std::vector<std::uint32_t>{1});
  EXPECT_EQ(refused({1}), std::vector<std::uint32_t>{0});
  EXPECT_EQ(refused({0, 1}), std::vector<std::uint32_t>());
}

TEST(AddRefused, ArraysAreAddedOnceAndStaySorted) {
  SourceChoice choice;
  std::vector<std::uint32_t> split{3, 7};
  EXPECT_FALSE(add_refused(choice, split));
  choice.refused = {7, 3};
  EXPECT_FALSE(add_refused(choice, split));
  choice.refused = {7, 5, 9, 1, 5};
  EXPECT_TRUE(add_refused(choice, split));
  EXPECT_EQ(split, (std::vector<std::uint32_t>{1, 3, 5, 7, 9}));
}

}  // namespace
}  // namespace hfshard
