#include "tool/completions.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/text.h"
#include "bytes/local/files.h"
#include "support/temp_dir.h"
#include "tool/cli.h"
#include "tool/help.h"
#include "tool/man.h"
#include "unit/tool/run_tool.h"

namespace hfshard {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t out = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++out;
  return out;
}

// Returns the words in the quotes that `before` ends with.
std::vector<std::string> quoted_words(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + before.size();
  return split(text.substr(begin, text.find('\'', begin) - begin), ' ');
}

TEST(Completions, EveryShellKnowsEveryOptionOfEveryCommand) {
  Session session;
  const Command app = program(session);
  const std::string bash = completions(app, Shell::bash);
  const std::string zsh = completions(app, Shell::zsh);
  const std::string fish = completions(app, Shell::fish);
  for (const auto& [words, command] : all_commands(app)) {
    const std::string path = join(words, ".");
    const std::size_t at = bash.find("    '" + path + "')\n");
    ASSERT_NE(at, std::string::npos) << path;
    const std::string in_bash = bash.substr(at, bash.find(";;", at) - at);
    const std::vector<std::string> options = quoted_words(in_bash, "options='");
    const std::vector<std::string> valued = quoted_words(in_bash, "valued='");
    const std::size_t from = zsh.find("_hfshard_" + join(words, "_") + "() {");
    ASSERT_NE(from, std::string::npos) << path;
    const std::string in_zsh = zsh.substr(from, zsh.find("\n}\n", from) - from);
    const std::string in_fish = (command->commands.empty() ? "__hfshard_in " : "__hfshard_at ") +
                                join(words, " ") + "' -l ";
    // A second colon makes a positional optional.
    if (command->commands.empty() && !command->positionals.empty()) {
      const Positional& first = command->positionals.front();
      const std::string spec = (first.required ? "'1:" : "'1::") + std::string(first.name) + ":";
      EXPECT_NE(in_zsh.find(spec), std::string::npos) << path << " " << spec;
    }
    for (const Option& option : command->options) {
      EXPECT_EQ(std::ranges::count(options, option.name), 1) << path << " " << option.name;
      EXPECT_EQ(std::ranges::count(valued, option.name), option.value.empty() ? 0 : 1)
          << path << " " << option.name;
      EXPECT_GE(count(in_zsh, option.name + (option.value.empty() ? "" : "=")), 1U)
          << path << " " << option.name;
      const std::string letter = option.letter.empty() ? "" : "-s " + option.letter.substr(1) + " ";
      EXPECT_EQ(count(fish, in_fish + option.name.substr(2) + " " + letter), 1U)
          << path << " " << option.name;
    }
  }
}

TEST(Completions, OfferWhatAValueCanBe) {
  EXPECT_EQ(offered(Option{.name = "--a", .choices = {"x", "y"}}).words,
            (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(offered(Option{.name = "--a", .offer = Offer::file}).kind, Offer::file);
  const Offered axes = offered(Option{.name = "--a", .value = "NAME=N,...", .offer = Offer::axes});
  EXPECT_TRUE(axes.list);
  EXPECT_NE(std::ranges::find(axes.words, "fsdp"), axes.words.end());
  const Offered families = offered(Positional{.name = "FAMILY", .offer = Offer::family});
  EXPECT_NE(std::ranges::find(families.words, "qwen3"), families.words.end());
}

TEST(Completions, AShortOptionHasTheValuesOfItsLongForm) {
  Command app{.name = "hfshard", .summary = {}};
  app.commands = {{.name = "do", .summary = {}}};
  app.commands[0].options = {
      {.name = "--mode", .letter = "-m", .value = "MODE", .choices = {"a", "b"}}};
  const std::string bash = completions(app, Shell::bash);
  const std::string values = "      'do --mode' | 'do -m')\n        kind='words a b' ;;\n";
  EXPECT_NE(bash.find(values), std::string::npos) << bash;
}

TEST(Completions, ABackslashIsEscaped) {
  Command app{.name = "hfshard", .summary = {}};
  app.commands = {{.name = "do", .summary = {}}};
  app.commands[0].options = {{.name = "--mode", .value = "MODE", .help = "of a\\b"}};
  for (const Shell shell : {Shell::fish, Shell::zsh}) {
    const std::string text = completions(app, shell);
    EXPECT_NE(text.find("of a\\\\b"), std::string::npos) << text;
  }
}

// Returns troff's output for a text with the escapes of hfshard's pages.
std::string printed_page(const std::string& page) {
  std::string out;
  for (std::size_t i = 0; i < page.size(); ++i) {
    if (page[i] != '\\') {
      out += page[i] == '\n' ? ' ' : page[i];
    } else if (page[i + 1] == 'f') {
      i += 2;
    } else {
      ++i;
      if (page[i] == '-') out += '-';
      if (page[i] == 'e') out += '\\';
    }
  }
  return out;
}

TEST(ManualPages, HaveEveryOptionExampleAndArgument) {
  Session session;
  const Command app = program(session);
  const std::vector<ManualPage> pages = manual_pages(app);
  EXPECT_EQ(pages.size(), all_commands(app).size() + 1);
  EXPECT_EQ(pages[0].name, "hfshard");
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const Command& command = i == 0 ? app : *all_commands(app)[i - 1].second;
    const std::string text = printed_page(pages[i].text);
    for (const Option& option : command.options) {
      const std::string head = (option.letter.empty() ? "" : option.letter + ", ") + option.name +
                               (option.value.empty() ? "" : " " + option.value);
      EXPECT_NE(text.find(".TP " + head + " " + option_help(option) + " "), std::string::npos)
          << pages[i].name << head;
    }
    for (const Example& example : command.examples)
      EXPECT_NE(text.find(".EX " + example.line + " .EE"), std::string::npos) << example.line;
    for (const Positional& positional : command.positionals)
      EXPECT_NE(text.find(".TP " + positional.name + " " + positional_help(positional) + " "),
                std::string::npos)
          << pages[i].name;
    const bool may_differ =
        !command.commands.empty() || command.name == "verify" || command.name == "diff";
    EXPECT_EQ(text.find("verify or diff found differences") != std::string::npos, may_differ)
        << pages[i].name;
    for (const Command& child : command.commands)
      EXPECT_NE(text.find(pages[i].name + "-" + child.name + " (1)"), std::string::npos)
          << child.name;
  }
}

TEST(ManualPages, CommasAreBetweenReferences) {
  Command app{.name = "hfshard", .summary = {}};
  app.commands = {{.name = "first", .summary = {}}, {.name = "second", .summary = {}}};
  const std::string text = printed_page(manual_page(app, {}).text);
  const std::string see = ".SH SEE ALSO .BR hfshard-first (1), .BR hfshard-second (1) ";
  EXPECT_NE(text.find(see), std::string::npos) << text;
}

TEST(ManualPages, ACommandRefersToItsGroup) {
  Command app{.name = "hfshard", .summary = {}};
  app.commands = {{.name = "group", .summary = {}}};
  app.commands[0].commands = {{.name = "one", .summary = {}}};
  const std::string group = printed_page(manual_page(app, {"group"}).text);
  const std::string see = ".SH SEE ALSO .BR hfshard (1), .BR hfshard-group-one (1) ";
  EXPECT_NE(group.find(see), std::string::npos) << group;
  const std::string one = printed_page(manual_page(app, {"group", "one"}).text);
  EXPECT_NE(one.find(".SH SEE ALSO .BR hfshard-group (1) "), std::string::npos) << one;
}

TEST(ManualPages, PagesThatAreThereAreReplaced) {
  const TempDir dir;
  Session session;
  const std::vector<ManualPage> pages = manual_pages(program(session));
  for (int time = 0; time < 2; ++time) {
    ASSERT_EQ(run_tool({"man", "--into", dir.path()}).status, 0);
    EXPECT_EQ(list_directory(dir.path()).size(), pages.size());
    for (const ManualPage& page : pages)
      EXPECT_EQ(read_text(dir / (page.name + ".1")), page.text) << page.name;
  }
}

TEST(ManualPages, TextIsNeverARequest) {
  Command app{.name = "p", .summary = ".SH of a \\fBpath\\fR", .description = {"'tis"}};
  const std::string text = manual_page(app, {}).text;
  EXPECT_NE(text.find("\n\\&.SH of a \\efBpath\\efR."), std::string::npos) << text;
  EXPECT_NE(text.find("\n\\&'tis\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace hfshard
