#include "tool/color.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace hfshard {
namespace {

TEST(Color, AnEmptyTextStaysEmpty) {
  choose_color("always");
  EXPECT_EQ(colored(Tone::error, "", STDOUT_FILENO), "");
  EXPECT_EQ(colored(Tone::error, "x", STDOUT_FILENO).substr(0, 2), "\x1b[");
  choose_color("auto");
}

}  // namespace
}  // namespace hfshard
