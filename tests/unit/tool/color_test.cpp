#include "tool/color.h"

#include <optional>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/variables.h"
#include "tool/environment.h"
#include "unit/tool/terminal.h"

namespace hfshard {
namespace {

TEST(Color, AnEmptyTextStaysEmpty) {
  choose_color("always");
  EXPECT_EQ(colored(Tone::error, "", STDOUT_FILENO), "");
  EXPECT_EQ(colored(Tone::error, "x", STDOUT_FILENO).substr(0, 2), "\x1b[");
  choose_color("auto");
}

TEST(Color, TheEnvironmentAndTheTerminalDecide) {
  const Terminal terminal;
  const auto is_colored = [](int stream, Variables::Values values) {
    for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "TERM"})
      values.emplace(name, std::nullopt);
    const Variables variables(values);
    return has_color(stream);
  };
  const auto in_terminal = [&](Variables::Values values) {
    values.emplace("TERM", "xterm");
    return is_colored(terminal.stream(), values);
  };
  choose_color("auto");
  EXPECT_TRUE(in_terminal({}));
  EXPECT_FALSE(in_terminal({{"TERM", "dumb"}}));
  EXPECT_FALSE(is_colored(terminal.stream(), {}));
  EXPECT_FALSE(in_terminal({{"CLICOLOR", "0"}}));
  EXPECT_TRUE(in_terminal({{"CLICOLOR", "1"}}));
  EXPECT_TRUE(in_terminal({{"CLICOLOR", "0"}, {"CLICOLOR_FORCE", "1"}}));
  EXPECT_FALSE(in_terminal({{"CLICOLOR", "0"}, {"CLICOLOR_FORCE", "0"}}));
  EXPECT_FALSE(in_terminal({{"NO_COLOR", "1"}}));
  EXPECT_FALSE(in_terminal({{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}}));
  EXPECT_TRUE(in_terminal({{"NO_COLOR", ""}}));
  const int file = ::open("/dev/null", O_WRONLY);
  EXPECT_FALSE(is_colored(file, {{"TERM", "xterm"}, {"CLICOLOR", "1"}}));
  EXPECT_TRUE(is_colored(file, {{"CLICOLOR_FORCE", "1"}}));
  ::close(file);
}

TEST(Color, NotesHangAndAWarningHasColorInItsFirstWord) {
  choose_color("always");
  const Variables columns("COLUMNS", "20");
  const std::string note = note_lines("note: one two three four");
  const std::string warning = note_lines("warning: one two three four");
  choose_color("never");
  const std::string plain = note_lines("warning: it");
  choose_color("auto");
  EXPECT_EQ(note, "note: one two\n  three four\n");
  EXPECT_EQ(warning, "\x1b[1;33mwarning:\x1b[0m one two\n  three four\n");
  EXPECT_EQ(plain, "warning: it\n");
}

TEST(Color, EachToneHasItsOwn) {
  choose_color("always");
  EXPECT_EQ(colored(Tone::error, "x", STDERR_FILENO), "\x1b[1;31mx\x1b[0m");
  EXPECT_EQ(colored(Tone::difference, "x", STDOUT_FILENO), "\x1b[31mx\x1b[0m");
  EXPECT_EQ(colored(Tone::work, "x", STDERR_FILENO), "\x1b[32mx\x1b[0m");
  choose_color("never");
  EXPECT_EQ(colored(Tone::error, "x", STDERR_FILENO), "x");
  choose_color("auto");
}

}  // namespace
}  // namespace hfshard
