#include "tool/progress.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

TEST(Progress, ShowsBytesRateAndTimeLeft) {
  EXPECT_EQ(progress_line({4 * kGiB, kGiB, 0, 2}, 100),
            "[######..................]  25%  1 GiB of 4 GiB  512 MiB/s  0:06 left");
}

TEST(Progress, EarlierBytesCountAsDoneButNotInTheRate) {
  EXPECT_EQ(progress_line({4 * kGiB, 3 * kGiB, 2 * kGiB, 4}, 100),
            "[##################......]  75%  3 GiB of 4 GiB  256 MiB/s  0:04 left");
}

TEST(Progress, HasNoRateBeforeAnythingIsKnown) {
  EXPECT_EQ(progress_line({kGiB, 0, 0, 5}, 100), "[........................]   0%  0 B of 1 GiB");
}

TEST(Progress, IsFullAtTheEndEvenOfNothing) {
  EXPECT_EQ(progress_line({kGiB, kGiB, 0, 2}, 100),
            "[########################] 100%  1 GiB of 1 GiB  512 MiB/s");
  EXPECT_EQ(progress_line({0, 0, 0, 0}, 100), "[########################] 100%  0 B of 0 B");
}

TEST(Progress, NeverPassesTheTerminalsWidthNorTheTotal) {
  EXPECT_EQ(progress_line({kGiB, 2 * kGiB, 0, 2}, 10), "[#########");
}

TEST(Progress, LongRunsHaveHours) {
  EXPECT_TRUE(progress_line({kGiB * 7200 + kGiB, kGiB, 0, 1}, 100).ends_with("2:00:00 left"));
}

TEST(Progress, WithoutATerminalThereAreNotesOnly) {
  testing::internal::CaptureStderr();
  for (const bool quiet : {false, true}) {
    const auto progress = make_progress(quiet);
    progress->started(100, 0);
    progress->advanced(50);
    progress->note(quiet ? "unheard" : "heard");
    progress->advanced(50);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "heard\n");
}

}  // namespace
}  // namespace hfshard
