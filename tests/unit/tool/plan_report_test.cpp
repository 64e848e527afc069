#include "tool/plan_report.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

PlanSummary loaded_with(std::vector<std::string> words, std::vector<std::string> names) {
  PlanSummary plan;
  plan.load_path = "load_parameters_path";
  plan.load_words = std::move(words);
  plan.model_names = std::move(names);
  return plan;
}

std::string printed(const PlanSummary& plan, const std::string& items) {
  testing::internal::CaptureStdout();
  print_next(plan, items);
  return testing::internal::GetCapturedStdout();
}

TEST(NextCommand, HasOneNameAndTheOthersBelow) {
  const PlanSummary plan = loaded_with({"scan_layers=true", "model_name=a-1b", "x=[]"},
                                       {"a-1b", "a-1b-base", "a-1b-chat"});
  EXPECT_EQ(printed(plan, "/out/0/items"),
            "next      load_parameters_path=/out/0/items scan_layers=true model_name=a-1b 'x=[]'\n"
            "          names that fit too: a-1b-base, a-1b-chat\n");
}

TEST(NextCommand, OfOneNameHasNoMore) {
  EXPECT_EQ(printed(loaded_with({"scan_layers=true"}, {"one"}), "/out"),
            "next      load_parameters_path=/out scan_layers=true\n");
}

TEST(NextCommand, IsOfAnAbsolutePath) {
  const auto words = next_words(loaded_with({}, {"one"}), "a/../out/0/items");
  ASSERT_EQ(words.size(), 1U);
  EXPECT_TRUE(words[0].starts_with("load_parameters_path=/"));
  EXPECT_TRUE(words[0].ends_with("/out/0/items"));
  EXPECT_EQ(words[0].find(".."), std::string::npos);
}

TEST(NextCommand, ShowsWhereNoLoaderIsKnown) {
  EXPECT_EQ(printed({}, "/it's"), "next      hfshard inspect '/it'\\''s'\n");
}

}  // namespace
}  // namespace hfshard
