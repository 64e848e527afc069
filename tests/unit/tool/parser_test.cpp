#include "tool/parser.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "support/catch_error.h"

namespace hfshard {
namespace {

struct Typed {
  bool flag = false;
  std::string mode = "a";
  std::string open = "b";
  std::uint64_t number = 7;
  unsigned small = 0;
  std::optional<std::uint64_t> maybe;
  std::optional<std::string> word;
  std::vector<std::string> list;
  std::string place;
};

Command program_of(Typed& typed) {
  Command command{.name = "do", .summary = "does"};
  command.positionals = {{.name = "PLACE", .to = &typed.place, .required = false}};
  command.options = {
      {.name = "--flag", .letter = "-f", .to = &typed.flag},
      {.name = "--mode", .to = &typed.mode, .value = "MODE", .choices = {"a", "bcd"}},
      {.name = "--open", .to = &typed.open, .value = "X", .choices = {"a", "b"}, .open = true},
      {.name = "--number", .to = &typed.number, .value = "N", .least = 1, .most = 9},
      {.name = "--small", .to = &typed.small, .value = "N", .most = 100},
      {.name = "--maybe", .to = &typed.maybe, .value = "N"},
      {.name = "--word", .to = &typed.word, .value = "W"},
      {.name = "--list", .letter = "-l", .to = &typed.list, .value = "X"},
      help_option()};
  Command out{.name = "program", .summary = "a program"};
  out.options = {help_option(), {.name = "--version", .letter = "-V"}};
  out.commands = {command};
  return out;
}

TEST(Parser, EveryKindOfVariableTakesItsValue) {
  Typed typed;
  const Command app = program_of(typed);
  const Parsed parsed =
      parse(app, split("do -f --mode bcd --open=zz --number 9 --small 3 --maybe 4 --word w -l x "
                       "--list y here",
                       ' '));
  ASSERT_FALSE(parsed.error) << parsed.error->format();
  EXPECT_EQ(parsed.ask, Parsed::Ask::run);
  EXPECT_EQ(parsed.command, &app.commands[0]);
  EXPECT_EQ(parsed.path, "program do");
  EXPECT_TRUE(typed.flag);
  EXPECT_EQ(typed.mode, "bcd");
  EXPECT_EQ(typed.open, "zz");
  EXPECT_EQ(typed.number, 9U);
  EXPECT_EQ(typed.small, 3U);
  EXPECT_EQ(typed.maybe, 4U);
  EXPECT_EQ(typed.word, "w");
  EXPECT_EQ(typed.list, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(typed.place, "here");
  EXPECT_EQ(parsed.given.size(), 9U);
  EXPECT_EQ(parsed.given.at("--mode"), (std::vector<std::string>{"bcd"}));
  EXPECT_EQ(parsed.given.at("--list"), (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(parsed.given.at("PLACE"), (std::vector<std::string>{"here"}));
  EXPECT_TRUE(parsed.given.contains("--flag"));
}

TEST(Parser, WhatIsNotGivenKeepsItsValue) {
  Typed typed;
  const Command app = program_of(typed);
  EXPECT_FALSE(parse(app, {"do"}).error);
  EXPECT_EQ(typed.mode, "a");
  EXPECT_EQ(typed.number, 7U);
  EXPECT_FALSE(typed.maybe);
}

TEST(Parser, ValuesOutOfTheTableAreUsageErrors) {
  for (const char* line :
       {"do --mode c", "do --number 0", "do --number 10", "do --small 101", "do --small -1",
        "do --maybe x", "do --flags", "do here there", "do --word", "dont", ""}) {
    Typed typed;
    const Command app = program_of(typed);
    const Parsed parsed =
        parse(app, std::string_view(line).empty() ? std::vector<std::string>{} : split(line, ' '));
    ASSERT_TRUE(parsed.error) << line;
    EXPECT_EQ(parsed.error->code(), ErrorCode::usage) << line;
  }
}

TEST(Parser, AnOptionMustFollowItsCommand) {
  Typed typed;
  const Command app = program_of(typed);
  for (const std::string option : {"--flag", "-f"}) {
    const Parsed parsed = parse(app, {option, "do"});
    ASSERT_TRUE(parsed.error) << option;
    EXPECT_EQ(parsed.error->sentence(), option + " must follow its command");
    EXPECT_EQ(parsed.error->hint_text(), "write program do ... " + option);
  }
}

TEST(Parser, TheCommandThatHasTheOptionIsNamed) {
  Typed typed;
  Command app = program_of(typed);
  app.commands.insert(app.commands.begin(), {.name = "other", .summary = "does more"});
  const Parsed parsed = parse(app, {"--flag", "other", "do"});
  ASSERT_TRUE(parsed.error);
  EXPECT_EQ(parsed.error->hint_text(), "write program do ... --flag");
}

TEST(Parser, AnUnknownOptionHasTheHintThatFits) {
  Typed typed;
  const Command app = program_of(typed);
  const auto hint = [&](const std::vector<std::string>& words) {
    const Parsed parsed = parse(app, words);
    return parsed.error ? parsed.error->hint_text() : "no error";
  };
  EXPECT_EQ(hint({"--do"}), "do is a command: program do");
  EXPECT_EQ(hint({"-do"}), "do is a command: program do");
  EXPECT_EQ(hint({"do", "-o"}), "see program do --help");  // it has no OUT
}

TEST(Parser, HelpAndVersionSayOfWhat) {
  Typed typed;
  const Command app = program_of(typed);
  EXPECT_EQ(parse(app, {"-V"}).ask, Parsed::Ask::version);
  EXPECT_EQ(parse(app, {"--help"}).command, &app);
  const Parsed parsed = parse(app, {"do", "--mode", "a", "-h"});
  EXPECT_EQ(parsed.ask, Parsed::Ask::help);
  EXPECT_EQ(parsed.command, &app.commands[0]);
}

TEST(OptionTables, AreTakenApartByName) {
  Typed typed;
  const OptionTable table = program_of(typed).commands[0].options;
  EXPECT_EQ(without(table, {"--flag", "--list"}).size(), table.size() - 2);
  const OptionTable two = only(table, {"--word", "--mode"});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[0].name, "--mode");
  EXPECT_EQ(joined({two, table}).size(), table.size() + 2);
}

TEST(OptionTables, ANameThatIsNotThereIsABug) {
  EXPECT_EQ(catch_error([] { without({}, {"--none"}); }).code(), ErrorCode::internal);
  EXPECT_EQ(catch_error([] { only({}, {"--none"}); }).code(), ErrorCode::internal);
}

}  // namespace
}  // namespace hfshard
