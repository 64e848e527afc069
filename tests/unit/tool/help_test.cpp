#include "tool/help.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tool/cli.h"
#include "tool/parser.h"

namespace hfshard {
namespace {

// Visits each command with its usage, including groups and the program.
void for_each_command(const Command& command, const std::string& path,
                      const std::function<void(const Command&, const std::string&)>& visit) {
  visit(command, path);
  for (const Command& child : command.commands)
    for_each_command(child, path + " " + child.name, visit);
}

void for_each_command(const std::function<void(const Command&, const std::string&)>& visit) {
  Session session;
  const Command app = program(session);
  for_each_command(app, app.name, visit);
}

std::size_t longest_line(const std::string& text) {
  std::size_t out = 0;
  for (const std::string& line : split(text, '\n')) out = std::max(out, line.size());
  return out;
}

TEST(Help, NoLineIsLongerThan80Columns) {
  for_each_command([](const Command& command, const std::string& path) {
    EXPECT_LE(longest_line(help_text(command, path, 80)), 80U) << path;
  });
}

TEST(Help, WordsOfANarrowTerminalAreBrokenAtBlanksOnly) {
  for_each_command([](const Command& command, const std::string& path) {
    for (const std::size_t columns : {0U, 40U, 51U, 52U}) {
      const std::string text = help_text(command, path, columns);
      Command plain = command;
      plain.examples.clear();  // examples are pasted, so never wrapped
      EXPECT_LE(longest_line(help_text(plain, path, columns)), std::max<std::size_t>(columns, 40))
          << path << " " << columns;
      for (const Option& option : command.options)
        EXPECT_NE(text.find(option.name), std::string::npos) << path << option.name;
    }
  });
}

TEST(Help, NamesEveryOptionArgumentAndCommandWithItsDefault) {
  for_each_command([](const Command& command, const std::string& path) {
    const std::string text = help_text(command, path, 1000);
    for (const Option& option : command.options) {
      std::string head = option.letter.empty() ? "      " : "  " + option.letter + ", ";
      head += option.name + (option.value.empty() ? "" : " " + option.value);
      EXPECT_NE(text.find("\n" + head), std::string::npos) << path << head;
      EXPECT_NE(text.find(option_help(option) + "\n"), std::string::npos) << path << option.name;
    }
    for (const Positional& positional : command.positionals)
      EXPECT_NE(text.find(positional_help(positional) + "\n"), std::string::npos)
          << path << positional.name;
    for (const Command& child : command.commands)
      EXPECT_NE(text.find(child.summary + "\n"), std::string::npos) << child.name;
  });
}

TEST(Help, EveryExampleIsACommandLine) {
  for_each_command([](const Command& command, const std::string& path) {
    EXPECT_TRUE(!command.run || !command.examples.empty()) << path;
    for (const Example& example : command.examples) {
      Session session;  // with its own variables
      const Command app = program(session);
      // The shell's part isn't the command's: `<(hfshard ...)`, `| man`, `>FILE`.
      std::string line = example.line.substr(example.line.find(app.name + " "));
      line = line.substr(0, line.find_first_of("|>)"));
      line.erase(line.find_last_not_of(' ') + 1);
      std::vector<std::string> words = split(line, ' ');
      ASSERT_EQ(words[0], app.name);
      words.erase(words.begin());
      const Parsed parsed = parse(app, words);
      EXPECT_FALSE(parsed.error) << example.line << "\n" << parsed.error->format();
      EXPECT_TRUE(parsed.path.starts_with(path)) << example.line;
    }
  });
}

TEST(Help, TakesTheDefaultFromTheVariable) {
  std::string size = "2GiB";
  EXPECT_EQ(option_help({.name = "--memory", .to = &size, .value = "SIZE", .help = "a bound"}),
            "a bound (default 2GiB)");
  std::uint64_t step = 0;
  EXPECT_EQ(option_help({.name = "--step", .to = &step, .value = "N", .help = "a step"}),
            "a step (default 0)");
  std::vector<std::string> globs;
  EXPECT_EQ(option_help({.name = "--only", .to = &globs, .help = "some", .standard = "all"}),
            "some (default all; may be repeated)");
  bool on = false;
  EXPECT_EQ(option_help({.name = "--on", .to = &on, .help = "whether"}), "whether");
}

TEST(Help, OptionsStandInGroupsInOneOrder) {
  const OptionTable table = {{.name = "--a", .group = Group::run, .help = ""},
                             {.name = "--b", .group = Group::model, .help = ""},
                             {.name = "--c", .group = Group::run, .help = ""}};
  const auto groups = grouped(table);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].first, Group::model);
  ASSERT_EQ(groups[1].second.size(), 2U);
  EXPECT_EQ(groups[1].second[1]->name, "--c");
}

// With one blank, the help would look like the option's value.
TEST(Help, TheHelpOfALongNameIsTwoBlanksAfterItOrBelow) {
  for (std::size_t size = 1; size < 40; ++size) {
    const std::string name = "--" + std::string(size, 'x');
    Command command{.name = "do", .summary = {}};
    command.options = {{.name = name, .help = "what it does"}};
    const std::string text = help_text(command, "do", 80);
    const std::string head = std::string(6, ' ') + name;
    const std::string shown = head.size() <= 26
                                  ? head + std::string(28 - head.size(), ' ') + "what it does\n"
                                  : head + "\n" + std::string(28, ' ') + "what it does\n";
    EXPECT_NE(text.find("\n" + shown), std::string::npos) << text;
  }
}

TEST(Help, WordsLongerThanALineStandAlone) {
  EXPECT_EQ(wrapped("a bb ccccc d", 4), (std::vector<std::string>{"a bb", "ccccc", "d"}));
  EXPECT_EQ(wrapped("", 4), (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace hfshard
