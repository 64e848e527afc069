#include "tool/hint_options.h"

#include <gtest/gtest.h>

namespace hfshard {
namespace {

Command program() {
  Command convert{.name = "convert", .summary = "converts"};
  convert.options = {{.name = "--scheme"}, {.name = "--untie"}, {.name = "--drop"}};
  Command diff{.name = "diff", .summary = "compares"};
  diff.options = {{.name = "--config"}};
  Command fetch{.name = "fetch", .summary = "fetches"};
  fetch.options = {{.name = "--offline"}};
  Command out{.name = "program", .summary = "a program"};
  out.commands = {convert, diff, fetch};
  return out;
}

TEST(HintOptions, OptionOfAnotherCommandIsNamedWithItsCommand) {
  const Command app = program();
  const Command& diff = app.commands[1];
  EXPECT_EQ(with_owners(app, diff, "pass --config DIR, or --scheme hf"),
            "pass --config DIR, or --scheme hf (--scheme is an option of convert)");
  EXPECT_EQ(with_owners(app, diff, "--untie keeps it, --drop 'x' drops it, --untie"),
            "--untie keeps it, --drop 'x' drops it, --untie "
            "(--untie, --drop are options of convert)");
}

TEST(HintOptions, OptionsOfTheFirstCommandAreNamed) {
  const Command app = program();
  EXPECT_EQ(with_owners(app, app.commands[1], "pass --scheme hf or --offline"),
            "pass --scheme hf or --offline (--scheme is an option of convert)");
  EXPECT_EQ(with_owners(app, app.commands[1], "converter --scheme hf"),
            "converter --scheme hf (--scheme is an option of convert)");
}

TEST(HintOptions, OtherHintsStayAsTheyAre) {
  const Command app = program();
  for (const char* hint : {"", "pass --config DIR", "convert --scheme hf keeps the names",
                           "hf download X --local-dir DIR", "a--scheme is no option",
                           "--scheme-of isn't one either", "-- alone"})
    EXPECT_EQ(with_owners(app, app.commands[1], hint), hint);
  EXPECT_EQ(with_owners(app, app.commands[0], "--scheme hf"), "--scheme hf");
  // A name that is part of another word isn't the command's.
  EXPECT_EQ(with_owners(app, app.commands[1], "reconvert --scheme hf"),
            "reconvert --scheme hf (--scheme is an option of convert)");
}

}  // namespace
}  // namespace hfshard
