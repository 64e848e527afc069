#include "tool/progress.h"

#include <cmath>
#include <optional>
#include <string>
#include <unistd.h>
#include <utility>

#include <gtest/gtest.h>

#include "support/variables.h"
#include "unit/tool/run_tool.h"
#include "unit/tool/terminal.h"

#include "hfshard/hfshard.h"

namespace hfshard {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(Progress, ShowsBytesRateTimeLeftAndTheStageThatLimits) {
  EXPECT_EQ(progress_line({4 * kGiB, kGiB, 0, 2, "write"}),
            "25%  1 GiB of 4 GiB  512 MiB/s  0:06 left  limit write");
}

TEST(Progress, ThePercentageIsRoundedDown) {
  EXPECT_TRUE(progress_line({1000, 999, 0, 2, {}}).starts_with("99%  "));
  EXPECT_TRUE(progress_line({1000, 9, 0, 2, {}}).starts_with("0%  "));
  EXPECT_TRUE(progress_line({1000, 1000, 0, 2, {}}).starts_with("100%  "));
}

TEST(Progress, EarlierBytesCountAsDoneButNotInTheRate) {
  EXPECT_EQ(progress_line({4 * kGiB, 3 * kGiB, 2 * kGiB, 4, {}}),
            "75%  3 GiB of 4 GiB  256 MiB/s  0:04 left");
}

TEST(Progress, HasNoRateBeforeAnythingIsKnown) {
  EXPECT_EQ(progress_line({kGiB, 0, 0, 5, "read"}), "0%  0 B of 1 GiB");
}

TEST(Progress, SaysForHowLongNothingMoved) {
  EXPECT_EQ(progress_line({4 * kGiB, kGiB, 0, 16, "read", 12}),
            "25%  1 GiB of 4 GiB  64 MiB/s  stalled 0:12  limit read");
  EXPECT_EQ(progress_line({kGiB, 0, 0, 90, {}, 90}), "0%  0 B of 1 GiB  stalled 1:30");
  EXPECT_EQ(progress_line({kGiB, kGiB, 0, 32, {}, 16}),
            "100%  1 GiB of 1 GiB  32 MiB/s  finishing 0:16");
  EXPECT_EQ(progress_bar({4 * kGiB, kGiB, 0, 16, {}, 12}, 39),
            "[####.............]  25%   stalled 0:12");
}

TEST(Progress, OfASourceThatIsFarTheLinkIsShown) {
  const ProgressFigures far{4 * kGiB, kGiB, 0, 2, "link", 0, kGiB / 2};
  EXPECT_EQ(progress_line(far), "25%  1 GiB of 4 GiB  link 256 MiB/s  0:06 left  limit link");
  EXPECT_EQ(progress_line({4 * kGiB, 0, 0, 2, {}, 0, kGiB / 2}),
            "0%  0 B of 4 GiB  link 256 MiB/s");
  EXPECT_EQ(progress_line({4 * kGiB, 0, 0, 2, {}, 0, 0}), "0%  0 B of 4 GiB");
  EXPECT_EQ(progress_bar(far, 79),
            "[######...................]  25%   link 256 MiB/s      0:06 left  limit link");
  for (std::size_t columns = 0; columns < 200; ++columns)
    EXPECT_LE(progress_bar(far, columns).size(), columns);
}

TEST(Progress, WhatHasComeOfASourceThatIsFarCounts) {
  ProgressFigures far{4 * kGiB, 0, 0, 4, {}, 0, kGiB};
  far.came_bytes = kGiB;
  EXPECT_EQ(progress_line(far), "25%  1 GiB of 4 GiB  link 256 MiB/s  0:12 left");
  far.came_bytes = 5 * kGiB;  // fetched twice; 100% means written
  EXPECT_TRUE(progress_line(far).starts_with("99%  ")) << progress_line(far);
  far.done_bytes = 4 * kGiB;
  EXPECT_TRUE(progress_line(far).starts_with("100%  ")) << progress_line(far);
}

// The plan tells how many bytes of output a byte of the source becomes.
TEST(Progress, DownloadedBytesCountAsTheirShareOfTheOutput) {
  constexpr std::uint64_t kStarted = 3;  // before the work
  const auto shown_of = [&](std::uint64_t source_bytes, std::uint64_t output_bytes) {
    Session session;
    session.progress = "always";
    session.progress_ms = 1'000'000;
    std::uint64_t came = kStarted;
    PlanSummary plan;
    plan.source_bytes = source_bytes;
    plan.output_bytes = output_bytes;
    testing::internal::CaptureStderr();
    {
      const auto progress = make_progress(session);
      progress->planned(plan);
      progress->linked([&] { return came; });
      progress->started(output_bytes, 0);
      came += 50;
      progress->advanced(1);
      progress->finish();
    }
    return testing::internal::GetCapturedStderr();
  };
  const auto has = [](const std::string& text, const std::string& line) {
    return text.find("\nprogress: " + line) != std::string::npos;
  };
  EXPECT_TRUE(has(shown_of(100, 100), "50%  50 B of 100 B")) << shown_of(100, 100);
  EXPECT_TRUE(has(shown_of(100, 300), "50%  150 B of 300 B")) << shown_of(100, 300);
  EXPECT_TRUE(has(shown_of(0, 200), "25%  50 B of 200 B")) << shown_of(0, 200);
}

TEST(Progress, TheTimeLeftIsOfTheLastSecondsAndNotGuessedTooEarly) {
  RecentRate rate;
  rate.add(0.5, 0);
  EXPECT_FALSE(rate.value());
  rate.add(1, 1000);
  rate.add(2, 5001000);
  EXPECT_FALSE(rate.value()) << "two seconds of data are not there yet";
  rate.add(3.5, 12501000);
  ASSERT_TRUE(rate.value());
  EXPECT_NEAR(*rate.value(), 5e6, 1e5);
  for (double at = 4; at < 40; at += 0.5) rate.add(at, 12501000);  // no more bytes arrive
  EXPECT_LT(*rate.value(), 5e4);
  ProgressFigures far{4 * kGiB, kGiB, 0, 2, {}, 0, kGiB};
  far.recent_rate = std::nullopt;
  EXPECT_EQ(progress_line(far), "25%  1 GiB of 4 GiB  link 512 MiB/s");
  far.recent_rate = static_cast<double>(kGiB);
  EXPECT_EQ(progress_line(far), "25%  1 GiB of 4 GiB  link 512 MiB/s  0:03 left");
}

TEST(Progress, AShortStepCountsFromFiftyMilliseconds) {
  RecentRate rate;
  rate.add(0, 1);
  rate.add(0.05, 1);  // no bytes in this step
  rate.add(2.05, 1001);
  ASSERT_TRUE(rate.value());
  EXPECT_NEAR(*rate.value(), 500 * (1 - std::exp(-2 / 2.05)), 1e-6);
  RecentRate other;
  other.add(0, 1);
  other.add(0.04, 1);  // too short, so it is a part of the next
  other.add(2.05, 1001);
  ASSERT_TRUE(other.value());
  EXPECT_NEAR(*other.value(), 1000 / 2.05, 1e-6);
}

TEST(Progress, ARateIsShownFromAFifthOfASecond) {
  EXPECT_EQ(progress_line({4 * kGiB, kGiB, 0, 0.2, {}}), "25%  1 GiB of 4 GiB  5 GiB/s  0:01 left");
  EXPECT_EQ(progress_line({4 * kGiB, kGiB, 0, 0.19, {}}), "25%  1 GiB of 4 GiB");
}

TEST(Progress, ColumnsCountFromTwentyToAMillion) {
  const auto columns = [](const char* value) {
    const Variables columns_of("COLUMNS", value);
    return file_columns(STDOUT_FILENO);
  };
  testing::internal::CaptureStdout();  // it isn't a terminal
  const std::size_t uncut = file_columns(STDOUT_FILENO);
  EXPECT_EQ(columns("20"), 20U);
  EXPECT_EQ(columns("19"), uncut);
  EXPECT_EQ(columns("1000000"), 1000000U);
  EXPECT_EQ(columns("1000001"), uncut);
  testing::internal::GetCapturedStdout();
}

TEST(Progress, ATerminalWithoutASizeHasEightyColumns) {
  const Terminal terminal;
  const Variables without("COLUMNS", std::nullopt);
  EXPECT_EQ(terminal_columns(terminal.stream()), 80U);
  EXPECT_EQ(file_columns(terminal.stream()), 1000000U);
  terminal.resize(60);
  EXPECT_EQ(terminal_columns(terminal.stream()), 60U);
  EXPECT_EQ(file_columns(terminal.stream()), 60U);
}

TEST(Progress, IsFullAtTheEndEvenOfNothing) {
  EXPECT_EQ(progress_line({kGiB, kGiB, 0, 2, {}}), "100%  1 GiB of 1 GiB  512 MiB/s");
  EXPECT_EQ(progress_line({0, 0, 0, 0, {}}), "100%  0 B of 0 B");
  EXPECT_EQ(progress_bar({0, 0, 0, 0, {}}, 25), "[##################] 100%");
}

TEST(Progress, LongRunsHaveHours) {
  EXPECT_TRUE(progress_line({kGiB * 7200 + kGiB, kGiB, 0, 1, {}}).ends_with("2:00:00 left"));
}

TEST(Progress, MoreThan99HoursAreNotShown) {
  constexpr std::uint64_t kSeconds = 99 * 3600;
  EXPECT_TRUE(progress_line({kGiB * (kSeconds + 1), kGiB, 0, 1, {}}).ends_with("99:00:00 left"));
  EXPECT_TRUE(progress_line({kGiB * (kSeconds + 2), kGiB, 0, 1, {}}).ends_with("  1 GiB/s"));
}

TEST(Progress, ABarShowsWhatFitsAndKeepsThePlaceOfEverything) {
  const ProgressFigures some{4 * kGiB, kGiB, 0, 2, "kernels"};
  EXPECT_EQ(progress_bar(some, 79),
            "[##.........]  25%     1 GiB of 4 GiB   512 MiB/s      0:06 left  limit kernels");
  EXPECT_EQ(progress_bar(some, 60), "[####...............]  25%     1 GiB of 4 GiB      0:06 left");
  EXPECT_EQ(progress_bar(some, 39), "[####.............]  25%      0:06 left");
  EXPECT_EQ(progress_bar({4 * kGiB, 0, 0, 0, {}}, 79), "[...........]   0%       0 B of 4 GiB");
  for (std::size_t columns = 0; columns < 200; ++columns)
    EXPECT_LE(progress_bar(some, columns).size(), columns);
}

TEST(Progress, TheStageThatLimitsIsTheOneThatTakesMostTime) {
  EXPECT_EQ(limit_of({0, 0, 0}, false), "");
  EXPECT_EQ(limit_of({0.01, 0.02, 0.03}, false), "");
  EXPECT_EQ(limit_of({0.05, 0, 0}, false), "");
  EXPECT_EQ(limit_of({2, 2, 1}, false), "read");
  EXPECT_EQ(limit_of({3, 2, 1}, false), "read");
  EXPECT_EQ(limit_of({3, 2, 1}, true), "link");
  EXPECT_EQ(limit_of({1, 3, 2}, false), "kernels");
  EXPECT_EQ(limit_of({1, 2, 3}, false), "write");
}

std::string shown(const std::string& asked, bool quiet, unsigned progress_ms) {
  Session session;
  session.progress = asked;
  session.quiet = quiet;
  session.progress_ms = progress_ms;
  testing::internal::CaptureStderr();
  {
    const auto progress = make_progress(session);
    progress->started(100, 0);
    progress->advanced(50);
    progress->note("heard");
    progress->advanced(50);
    progress->finish();
  }
  return testing::internal::GetCapturedStderr();
}

TEST(Progress, WithoutATerminalThereAreLinesAtIntervals) {
  constexpr unsigned kLong = 1'000'000;
  EXPECT_EQ(shown("auto", false, kLong), "note: heard\n");
  EXPECT_EQ(shown("auto", false, 0),
            "progress: 50%  50 B of 100 B\nnote: heard\nprogress: 100%  100 B of 100 B\n");
  EXPECT_EQ(shown("auto", true, 0), "");
  EXPECT_EQ(shown("never", false, 0), "note: heard\n");
  EXPECT_EQ(shown("always", false, kLong),
            "progress: 0%  0 B of 100 B\nnote: heard\nprogress: 100%  100 B of 100 B\n");
  EXPECT_EQ(shown("always", true, kLong),
            "progress: 0%  0 B of 100 B\nprogress: 100%  100 B of 100 B\n");
}

TEST(Progress, WorkOfEarlierRunsIsNoted) {
  FoundWork found;
  found.total_bytes = 100;
  const auto noted = [&] {
    Session session;
    session.progress = "never";
    testing::internal::CaptureStderr();
    make_progress(session)->resumed(found);
    return testing::internal::GetCapturedStderr();
  };
  const std::string nothing =
      "note: nothing to resume: no earlier run with these options has written data here\n";
  const std::string anew = "; run hfshard clean OUT to start over\n";
  const auto expect = [&](const std::string& done) {
    found.asked = true;
    EXPECT_EQ(noted(), "note: resuming: " + done + "\n");
    found.asked = false;
    EXPECT_EQ(noted(), "note: continuing a stopped run: " + done + anew);
  };
  EXPECT_EQ(noted(), nothing);
  found.arrived_bytes = 5;
  expect("5 B have arrived, and none of 100 B is written yet");
  found.bytes = 40;
  found.workers = 2;
  expect("40 B of 100 B are already written (by 2 workers)");
  found.arrived_bytes = 0;
  found.workers = 1;
  expect("40 B of 100 B are already written (by 1 worker)");
}

// Returns what is printed when a plan is known, and then until the run begins.
std::pair<std::string, std::string> printed_around_start(const PlanSummary& plan,
                                                         bool quiet = false) {
  Session session;
  session.progress = "never";
  session.quiet = quiet;
  testing::internal::CaptureStderr();
  const auto progress = make_progress(session);
  progress->planned(plan);
  std::string before = testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  progress->started(1, 0);
  return {before, testing::internal::GetCapturedStderr()};
}

// A refused output has one error and no notes.
TEST(Progress, NotesOnThePlanWaitUntilTheRunBegins) {
  PlanSummary plan;
  plan.warnings = {"w"};
  plan.notes = {"n"};
  plan.drops = {{"unused", {"x", "y", "z"}}, {"old", {"v"}}};
  const auto [before, after] = printed_around_start(plan);
  EXPECT_EQ(before, "");
  EXPECT_EQ(after,
            "warning: w\nnote: n\nnote: not converted: \"x\" and 2 more: unused\n"
            "note: not converted: \"v\": old\n");
  EXPECT_EQ(printed_around_start(plan, true), (std::pair<std::string, std::string>()));
}

// They can tell why the output is refused.
TEST(Progress, LeavesThatCannotBeLinkedAreNamedAtOnce) {
  PlanSummary plan;
  plan.links = true;
  plan.linked_bytes = 3;
  plan.linked_chunks = 1;
  plan.linked_leaves = 1;
  const std::string linked = "linked    100.0% of the bytes: 3 B in 1 chunk of 1 leaf\n";
  const std::string copied = "copied    nothing; all data stays in the source's files\n";
  EXPECT_EQ(printed_around_start(plan), (std::pair<std::string, std::string>("", linked + copied)));
  plan.not_linked = {{"a", "odd"}, {"b", "odd"}, {"c", "even"}};
  EXPECT_EQ(printed_around_start(plan), (std::pair<std::string, std::string>(
                                            linked + "converted 1 leaf, c: even\n" +
                                                "converted 2 leaves, a the first: odd\n" + copied,
                                            "")));
}

TEST(Progress, AskedForInAnotherWordIsRefused) {
  const ToolRun run = run_tool({"verify", "nowhere", "--progress", "sometimes"});
  EXPECT_EQ(run.status, 2);
}

}  // namespace
}  // namespace hfshard
