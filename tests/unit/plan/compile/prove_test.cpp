#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "plan/compile/compile_model.h"

namespace hfshard {
namespace {

// A model with one leaf [3, 4], made from the columns of two tensors [3, 2].
struct TwoHalves {
  TwoHalves() {
    for (const char* name : {"a", "b"}) {
      TensorInfo info;
      info.name = name;
      info.shape = {3, 2};
      catalog.tensors.push_back(info);
    }
    model.rules = {"rule/0", "rule/1"};
    Leaf leaf;
    leaf.name = "w";
    leaf.shape = {3, 4};
    model.leaves = {leaf};
    for (std::uint32_t i = 0; i < 2; ++i) {
      Transfer half;
      half.rule = i;
      half.sources = {i};
      half.source_shape = {3, 2};
      half.map.dst_base = i * 2;
      half.map.digits = {{3, 2, 4}, {2, 1, 1}};
      model.transfers.push_back(half);
    }
  }

  std::vector<CheckFinding> prove() const { return hfshard::prove(catalog, model); }

  Catalog catalog;
  CompiledModel model;
};

TEST(Prove, AcceptsWhatTilesBothSides) { EXPECT_TRUE(TwoHalves().prove().empty()); }

TEST(Prove, FindsAnElementThatIsWrittenTwice) {
  TwoHalves two;
  two.model.transfers[1].map.dst_base = 1;
  const auto findings = two.prove();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "w");
  EXPECT_FALSE(findings[0].rule.empty());
}

TEST(Prove, FindsAnElementThatIsNeverWritten) {
  TwoHalves two;
  two.model.transfers.pop_back();
  const auto findings = two.prove();
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].tensor, "w");
  EXPECT_EQ(findings[1].tensor, "b");
}

TEST(Prove, FindsARuleThatPassesTheLeaf) {
  TwoHalves two;
  two.model.transfers[1].map.dst_base = 3;
  EXPECT_FALSE(two.prove().empty());
}

TEST(Prove, FindsASourceElementThatIsUsedTwiceOrNever) {
  TwoHalves two;
  two.model.transfers[1].map.digits = {{3, 0, 4}, {2, 1, 1}};
  two.model.transfers[1].map.src_base = 2;
  const auto findings = two.prove();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "b");
}

TEST(Prove, ADropAccountsForItsRegion) {
  TwoHalves two;
  two.catalog.tensors[1].shape = {4, 2};
  EXPECT_EQ(two.prove().size(), 1U);
  Drop drop;
  drop.source = 1;
  drop.map.src_base = 6;
  drop.map.digits = {{2, 1, 0}};
  two.model.drops.push_back(drop);
  EXPECT_TRUE(two.prove().empty());
  two.model.drops.push_back(drop);
  EXPECT_EQ(two.prove().size(), 1U);
}

TEST(Prove, AFillAccountsForItsRegion) {
  TwoHalves two;
  two.model.leaves[0].shape = {4, 4};
  EXPECT_EQ(two.prove().size(), 1U);
  Fill fill;
  fill.map.dst_base = 12;
  fill.map.digits = {{4, 0, 1}};
  two.model.fills.push_back(fill);
  EXPECT_TRUE(two.prove().empty());
}

TEST(Prove, ACopyIsNotTheOwnerOfItsSource) {
  TwoHalves two;
  two.model.transfers[1].sources = {0};
  EXPECT_EQ(two.prove().size(), 2U);  // a is used twice, b never
  two.model.transfers[1].copy = true;
  two.catalog.tensors.pop_back();
  EXPECT_TRUE(two.prove().empty());
}

TEST(Prove, LoopsCoverTheStackAxis) {
  TwoHalves two;
  two.model.transfers.pop_back();
  Transfer& stack = two.model.transfers[0];
  stack.sources = {0, 1};
  stack.loops = {{2, 2}};
  EXPECT_TRUE(two.prove().empty());
  stack.loops = {{2, 1}};
  EXPECT_FALSE(two.prove().empty());
}

TEST(Prove, ARepeatedSourceCountsOnce) {
  TwoHalves two;
  two.model.transfers.pop_back();
  two.catalog.tensors.pop_back();
  two.model.transfers[0].map.digits = {{3, 2, 4}, {2, 0, 2}, {2, 1, 1}};
  EXPECT_TRUE(two.prove().empty());
}

TEST(Prove, AFindingSaysWhichElementHowOftenAndByWhichRule) {
  TwoHalves two;
  two.model.transfers[1].map.dst_base = 1;
  CheckFinding found = two.prove().at(0);
  EXPECT_EQ(found.what, "element [0, 1] of \"w\" (3x4) is written 2 times by its rules");
  EXPECT_EQ(found.rule, "rule/0") << "the first one that covers it";
  two.model.transfers.pop_back();
  found = two.prove().at(0);
  EXPECT_EQ(found.what, "element [0, 2] of \"w\" (3x4) is written 0 times by its rules");
  found = two.prove().at(1);
  EXPECT_EQ(found.tensor, "b");
  EXPECT_EQ(found.what, "element [0, 0] of \"b\" (3x2) is used 0 times by its rules");
  TwoHalves beyond;
  beyond.model.transfers[1].map.dst_base = 3;
  found = beyond.prove().at(0);
  EXPECT_EQ(found.what, "a rule exceeds the 12 elements of \"w\"");
  EXPECT_EQ(found.rule, "rule/1");
}

TEST(Prove, ATensorOfSeveralRulesIsProvedWithAllOfThem) {
  TwoHalves two;
  two.model.transfers[1].sources = {0};
  two.catalog.tensors.pop_back();
  const auto findings = two.prove();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "a");
  EXPECT_EQ(findings[0].what, "element [0, 0] of \"a\" (3x2) is used 2 times by its rules");
  EXPECT_EQ(findings[0].rule, "rule/0");
}

TEST(Prove, ScalesOfCodesBelongToTheRuleOfTheCodes) {
  TwoHalves two;
  TensorInfo scale;
  scale.name = "scale";
  two.catalog.tensors.push_back(scale);
  const auto findings = two.prove();
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].tensor, "scale");
  EXPECT_EQ(findings[0].what, "element [] of \"scale\" (scalar) is used 0 times by its rules");
  Decode decode;
  decode.scales = {2};
  two.model.transfers[1].decode = std::make_shared<const Decode>(decode);
  EXPECT_TRUE(two.prove().empty());
}

TEST(Prove, EmptyTensorsAndScalarsAreTiled) {
  CompiledModel model;
  model.rules = {"r"};
  Catalog catalog;
  for (const Shape& shape : {Shape{}, Shape{0, 3}}) {
    TensorInfo info;
    info.name = std::to_string(catalog.tensors.size());
    info.shape = shape;
    Leaf leaf;
    leaf.name = info.name;
    leaf.shape = shape;
    Transfer transfer;
    transfer.target = static_cast<std::uint32_t>(model.leaves.size());
    transfer.sources = {transfer.target};
    if (shape.rank() == 2) transfer.map.digits = {{0, 3, 3}, {3, 1, 1}};
    catalog.tensors.push_back(info);
    model.leaves.push_back(leaf);
    model.transfers.push_back(transfer);
  }
  EXPECT_TRUE(prove(catalog, model).empty());
}

}  // namespace
}  // namespace hfshard
