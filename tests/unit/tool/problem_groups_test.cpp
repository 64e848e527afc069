#include "tool/problem_groups.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

CheckReport::Problem problem(const std::string& tensor, const std::string& what,
                             const std::string& rule = "r") {
  return {tensor, what, rule, {}};
}

TEST(ProblemGroups, AFaultOfEveryLayerIsOneFindingWithItsCountAndFirstTensor) {
  std::vector<CheckReport::Problem> problems;
  for (int layer = 0; layer < 32; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer) + ".mlp.up_proj.weight";
    problems.push_back(problem(name, "element (0, 3) of \"" + name + "\" is used 2 times"));
  }
  const auto groups = group_problems(problems);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 32U);
  EXPECT_EQ(groups[0].tensors, "model.layers.{0-31}.mlp.up_proj.weight");
  EXPECT_EQ(groups[0].first.tensor, "model.layers.0.mlp.up_proj.weight");
  EXPECT_EQ(groups[0].first.what, problems[0].what);
}

TEST(ProblemGroups, GapsAndSeveralNumbersAreNamed) {
  const auto groups = group_problems({problem("l.0.e.7.w1", "x"), problem("l.2.e.7.w1", "x"),
                                      problem("l.3.e.7.w1", "x"), problem("l.5.e.7.w1", "x")});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].tensors, "l.{0, 2-3, 5}.e.7.w1");
  EXPECT_EQ(group_problems({problem("l.0.e.0.w", "x"), problem("l.1.e.1.w", "x")})[0].tensors,
            "l.{0-1}.e.{0-1}.w");
}

TEST(ProblemGroups, WhatIsAnotherFaultStaysApart) {
  const auto count = [](const CheckReport::Problem& a, const CheckReport::Problem& b) {
    return group_problems({a, b}).size();
  };
  EXPECT_EQ(count(problem("l.0.w", "x"), problem("l.1.w", "x")), 1U);
  EXPECT_EQ(count(problem("l.0.w", "x"), problem("l.1.v", "x")), 2U);  // another tensor
  EXPECT_EQ(count(problem("l.0.w", "x"), problem("l.1.w", "y")), 2U);  // another fault
  EXPECT_EQ(count(problem("l.0.w", "4"), problem("l.1.w", "5")), 2U);  // a number that matters
  EXPECT_EQ(count(problem("l.0.w", "x", "r"), problem("l.1.w", "x", "s")), 2U);
  EXPECT_EQ(count(problem("l.0.w", "\"l.0.w\" x"), problem("l.1.w", "\"l.1.w\" x")), 1U);
}

TEST(ProblemGroups, NumbersBeyond64BitsAreNotJoined) {
  const auto groups = group_problems(
      {problem("b.99999999999999999999998", "x"), problem("b.99999999999999999999999", "x")});
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].count, 2U);
  EXPECT_EQ(groups[0].tensors, "b.99999999999999999999998");
}

TEST(ProblemGroups, OneProblemKeepsItsTensorAndTheOrderIsThatOfTheFirst) {
  const auto groups = group_problems(
      {problem("b.1", "x"), problem("", "y"), problem("b.2", "x"), problem("a", "x")});
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].tensors, "b.{1-2}");
  EXPECT_EQ(groups[1].tensors, "");
  EXPECT_EQ(groups[2].tensors, "a");
}

}  // namespace
}  // namespace hfshard
