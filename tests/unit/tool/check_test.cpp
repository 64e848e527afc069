#include "tool/check.h"

#include <gtest/gtest.h>

#include "support/catch_error.h"
#include "tool/example.h"

namespace hfshard {
namespace {

Catalog qwen3() { return example_catalog("qwen3", family_info("qwen3").example, DType::bf16); }

TEST(CheckExample, EveryFamilyIsAccountedInEachOfItsLayouts) {
  for (const FamilyInfo& info : list_families()) {
    for (const bool stacked : {true, false}) {
      if (!(stacked ? info.stacked : info.separate)) continue;
      const CheckReport report = check_example(info, stacked);
      EXPECT_EQ(report.family, info.name);
      EXPECT_GT(report.leaves, 0U);
      for (const CheckReport::Problem& problem : report.problems) {
        ADD_FAILURE() << info.name << ": " << problem.what << " " << problem.rule;
      }
    }
  }
}

TEST(CheckExample, ABrokenExampleIsAProblemNotAnError) {
  FamilyInfo info = family_info("qwen3");
  info.example.object().erase("hidden_size");
  EXPECT_FALSE(check_example(info, true).problems.empty());
}

TEST(CheckMapping, AnUnmatchedTensorIsAProblemThatNamesIt) {
  Catalog catalog = qwen3();
  catalog.tensors.push_back(catalog.tensors.back());
  catalog.tensors.back().name = "zebra.weight";
  const CheckReport report = check_mapping(catalog, {});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "zebra.weight");
  EXPECT_EQ(report.family, "qwen3");
}

TEST(CheckMapping, AWrongShapeIsAProblemWithItsRule) {
  Catalog catalog = qwen3();
  catalog.tensors[*catalog.find("model.norm.weight")].shape = {3};
  const CheckReport report = check_mapping(catalog, {});
  ASSERT_EQ(report.problems.size(), 1U);
  EXPECT_EQ(report.problems[0].tensor, "model.norm.weight");
  EXPECT_TRUE(report.problems[0].rule.starts_with("mappings/qwen3.json#/"));
}

TEST(CheckMapping, WhatIsExcludedIsDroppedByName) {
  MappingOptions options;
  options.exclude = {"model.norm.weight"};
  const CheckReport report = check_mapping(qwen3(), options);
  EXPECT_TRUE(report.problems.empty());
  ASSERT_EQ(report.dropped.size(), 1U);
  EXPECT_EQ(report.dropped[0].tensor, "model.norm.weight");
  EXPECT_FALSE(report.dropped[0].why.empty());
}

TEST(CheckMapping, AnUnknownFamilyAndAnUnknownOptionAreErrors) {
  Catalog catalog = qwen3();
  MappingOptions options;
  options.options["nobody"] = "1";
  EXPECT_EQ(catch_error([&] { check_mapping(catalog, options); }).code(), ErrorCode::usage);
  catalog.config_text = R"({"model_type": "nobody"})";
  EXPECT_EQ(catch_error([&] { check_mapping(catalog, {}); }).code(), ErrorCode::unsupported);
}

}  // namespace
}  // namespace hfshard
