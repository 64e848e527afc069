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

TEST(NextCommand, HasASentenceBelow) {
  PlanSummary plan = loaded_with({"scan_layers=true", "x=[]"}, {});
  EXPECT_EQ(printed(plan, "/out/0/items"),
            "next      load_parameters_path=/out/0/items scan_layers=true 'x=[]'\n");
  plan.load_note = "These set every size.";
  EXPECT_EQ(printed(plan, "/out"),
            "next      load_parameters_path=/out scan_layers=true 'x=[]'\n"
            "          These set every size.\n");
}

TEST(NextCommand, NamesTheRunThatAStateIsIn) {
  PlanSummary plan = loaded_with({"scan_layers=true"}, {});
  plan.load_run = {"base", "run", "checkpoints"};
  EXPECT_EQ(next_words(plan, "/runs/first/checkpoints/7/items"),
            (std::vector<std::string>{"base=/runs", "run=first", "scan_layers=true"}));
  EXPECT_EQ(
      next_words(plan, "/runs/first/7/items"),
      (std::vector<std::string>{"load_parameters_path=/runs/first/7/items", "scan_layers=true"}));
}

TEST(NextCommand, NamesTheTokenizersDirectory) {
  PlanSummary plan = loaded_with({}, {});
  plan.load_assets = "--assets";
  EXPECT_EQ(next_words(plan, "/out"),
            (std::vector<std::string>{"load_parameters_path=/out", "--assets=/out"}));
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

// The output and what is unpacked meanwhile are on one disk.
TEST(PrintPlan, TheDiskMustHoldTheOutputAndTheScratch) {
  const auto disk = [](std::uint64_t free_bytes, std::uint64_t scratch_bytes, bool compresses) {
    PlanReport report;
    report.summary.output_bytes = 100;
    report.summary.compresses = compresses;
    report.scratch_bytes = scratch_bytes;
    report.free_bytes = free_bytes;
    testing::internal::CaptureStdout();
    print_plan(report);
    const std::string out = testing::internal::GetCapturedStdout();
    const std::size_t begin = out.find(" free, ") + 7;
    return out.substr(begin, out.find('\n', begin) - begin);
  };
  EXPECT_EQ(disk(100, 0, false), "enough");
  EXPECT_EQ(disk(99, 0, false), "not enough");
  EXPECT_EQ(disk(150, 50, false), "enough");
  EXPECT_EQ(disk(149, 50, false), "not enough");
  EXPECT_EQ(disk(149, 50, true), "enough only if the data compresses well");
}

TEST(Outcome, ACompleteOutputIsPublished) {
  ConvertReport report;
  EXPECT_FALSE(outcome_json(report).at("published").as_bool());
  report.run.already_done = true;
  EXPECT_TRUE(outcome_json(report).at("published").as_bool());
}

PlanReport small_report() {
  PlanReport report;
  report.summary.output_bytes = 100;
  report.free_bytes = 200;
  return report;
}

std::string printed_by(void (*print)(const PlanReport&), const PlanReport& report) {
  testing::internal::CaptureStdout();
  print(report);
  return testing::internal::GetCapturedStdout();
}

TEST(PrintPlan, TimesHaveTheUnitThatSuitsThem) {
  const auto about = [](double seconds) {
    PlanReport report = small_report();
    report.time = TimeEstimate{};
    report.time->seconds = seconds;
    report.time->limit = "reading";
    const std::string out = printed_by([](const PlanReport& plan) { print_plan(plan); }, report);
    const std::size_t begin = out.find("about ") + 6;
    return out.substr(begin, out.find(',', begin) - begin);
  };
  EXPECT_EQ(about(0.99), "less than a second");
  EXPECT_EQ(about(1), "1 s");
  EXPECT_EQ(about(119), "119 s");
  EXPECT_EQ(about(120), "2 min");
  EXPECT_EQ(about(7190), "120 min");
  EXPECT_EQ(about(7200), "2.0 h");
}

TEST(PrintPlan, LeavesBeyondThoseShownAreCounted) {
  PlanReport report = small_report();
  PlannedLeaf leaf;
  leaf.path = "a.leaf";
  report.leaves = {leaf};
  report.summary.leaves = 1;
  EXPECT_EQ(printed_by(print_leaves, report).find("... and"), std::string::npos);
  report.summary.leaves = 2;
  EXPECT_NE(printed_by(print_leaves, report).find("  ... and 1 more leaf (--json lists all)\n"),
            std::string::npos);
  report.summary.leaves = 4;
  EXPECT_NE(printed_by(print_leaves, report).find("  ... and 3 more leaves (--json"),
            std::string::npos);
}

}  // namespace
}  // namespace hfshard
