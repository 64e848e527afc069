// The whole text of errors for wrong command lines.

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/text.h"
#include "tool/parser.h"

namespace hfshard {
namespace {

struct Typed {
  bool flag = false;
  bool other = false;
  std::string mode;
  std::string out;
  std::string in;
  std::string kind;
  std::uint64_t number = 0;
  std::vector<std::string> list;
  std::string word;
  std::string prefix;
};

Command three_commands(Typed& typed) {
  Command convert{.name = "convert", .summary = "converts"};
  convert.positionals = {{.name = "IN", .to = &typed.in},
                         {.name = "OUT", .to = &typed.out, .required = false}};
  convert.options = {
      {.name = "--flag", .letter = "-f", .to = &typed.flag},
      {.name = "--mode", .to = &typed.mode, .value = "MODE", .choices = {"fast", "slow"}},
      {.name = "--number", .to = &typed.number, .value = "N", .least = 2, .most = 9},
      {.name = "--list", .to = &typed.list, .value = "X"},
      {.name = "--prefix", .to = &typed.prefix, .value = "TEXT"},
      help_option()};
  Command fetch{.name = "fetch", .summary = "fetches"};
  fetch.positionals = {{.name = "MODEL", .to = &typed.in}};
  fetch.options = {{.name = "--include", .to = &typed.list, .value = "GLOB"},
                   {.name = "--flag", .to = &typed.flag},
                   help_option()};
  Command shell{.name = "shell", .summary = "completes"};
  shell.positionals = {{.name = "KIND", .to = &typed.kind, .choices = {"bash", "fish"}}};
  Command show{.name = "show", .summary = "shows"};
  show.options = {{.name = "--other", .letter = "-o", .to = &typed.other}};
  Command maps{.name = "maps", .summary = "a group"};
  maps.commands = {show, Command{.name = "list", .summary = "lists"}};
  Command out{.name = "prog", .summary = "a program"};
  out.options = {help_option(), {.name = "--version", .letter = "-V"}};
  out.commands = {convert, fetch, shell, maps};
  return out;
}

std::string error_of(const std::string& line) {
  Typed typed;
  const Command app = three_commands(typed);
  const Parsed parsed = parse(app, line.empty() ? std::vector<std::string>() : split(line, ' '));
  if (!parsed.error) return "no error";
  EXPECT_EQ(parsed.error->code(), ErrorCode::usage);
  return parsed.error->sentence() + " | " + parsed.error->hint_text();
}

void expect_errors(const std::vector<std::pair<std::string, std::string>>& pairs) {
  for (const auto& [typed, line] : pairs) EXPECT_EQ(error_of(typed), line) << typed;
}

TEST(UsageError, NamesTheCommandsThatAreKnown) {
  expect_errors(
      {{"maps", "maps needs one of its commands | its commands are show, list"},
       {"maps shaw", "hfshard has no command \"shaw\" | did you mean show?"},
       {"maps convert", "hfshard has no command \"convert\" | the commands are show, list"},
       {"conv a", "hfshard has no command \"conv\" | did you mean convert?"},
       {"CONVERT a", "hfshard has no command \"CONVERT\" | did you mean convert?"},
       {"con a", "hfshard has no command \"con\" | the commands are convert, fetch, shell, maps"},
       {"fetsh a", "hfshard has no command \"fetsh\" | did you mean fetch?"},
       {"nonsense",
        "hfshard has no command \"nonsense\" | the commands are convert, fetch, shell, maps"},
       {"version", "hfshard has no command \"version\" | did you mean --version?"},
       {"maps help", "hfshard has no command \"help\" | did you mean --help?"},
       {"--list convert", "--list must follow its command | write prog convert ... --list"},
       {"--flag x fetch", "--flag must follow its command | write prog fetch ... --flag"},
       {"--flag=x convert a", "--flag must follow its command | write prog convert ... --flag"},
       {"--other maps show", "--other must follow its command | write prog maps show ... --other"},
       {"maps -o show", "-o must follow its command | write prog maps show ... -o"},
       {"--flags convert a",
        "prog convert has no option \"--flags\" | did you mean --flag? see prog convert --help"},
       {"maps --other=1 list",
        "prog maps list has no option \"--other\" | see prog maps list --help"},
       {"--flag maps",
        "prog maps has no option \"--flag\" | --flag is an option of convert, fetch; see prog maps "
        "--help"},
       {"--help convert", "no error"},
       {"x --flag convert",
        "hfshard has no command \"x\" | the commands are convert, fetch, shell, maps"}});
}

TEST(UsageError, NamesTheOptionThatWasMeant) {
  expect_errors(
      {{"convert a --flags",
        "prog convert has no option \"--flags\" | did you mean --flag? see prog convert --help"},
       {"convert a --mod=fast",
        "prog convert has no option \"--mod\" | did you mean --mode? see prog convert --help"},
       {"convert a --mo",
        "prog convert has no option \"--mo\" | did you mean --mode? see prog convert --help"},
       {"convert a --include x",
        "prog convert has no option \"--include\" | --include is an option of fetch; see prog "
        "convert --help"},
       {"fetch a --number 3",
        "prog fetch has no option \"--number\" | --number is an option of convert; see prog fetch "
        "--help"},
       {"fetch a --out b", "prog fetch has no option \"--out\" | see prog fetch --help"},
       {"convert a --out b",
        "prog convert has no option \"--out\" | OUT is written without an option: prog convert "
        "[OPTIONS] IN [OUT]"},
       {"convert a -o b",
        "prog convert has no option \"-o\" | OUT is written without an option: prog convert "
        "[OPTIONS] IN [OUT]"},
       {"convert a --output-dir=b",
        "prog convert has no option \"--output-dir\" | OUT is written without an option: prog "
        "convert [OPTIONS] IN [OUT]"},
       {"convert a -z", "prog convert has no option \"-z\" | see prog convert --help"},
       {"convert a -zz",
        "prog convert has no option \"-zz\" | for a path with this name, pass ./-zz; see prog "
        "convert --help"},
       {"convert a --zz", "prog convert has no option \"--zz\" | see prog convert --help"},
       {"maps show --flag",
        "prog maps show has no option \"--flag\" | --flag is an option of convert, fetch; see prog "
        "maps show --help"},
       {"--fetch", "prog has no option \"--fetch\" | fetch is a command: prog fetch"},
       {"maps --show", "prog maps has no option \"--show\" | show is a command: prog maps show"},
       {"maps -list", "prog maps has no option \"-list\" | list is a command: prog maps list"},
       {"convert a -- --zz -x y",
        "\"-x\" is one argument too many | usage: prog convert [OPTIONS] IN [OUT]"}});
}

TEST(UsageError, SaysHowManyValuesAnOptionTakes) {
  expect_errors(
      {{"convert", "IN is required | see prog convert --help"},
       {"convert a --mode", "--mode needs a value, MODE | see prog convert --help"},
       {"convert a --mode fast --mode slow", "--mode is given 2 times | see prog convert --help"},
       {"convert a --mode fst", "--mode can't be \"fst\" | did you mean fast?"},
       {"convert a --mode nonsense", "--mode can't be \"nonsense\" | pass one of fast, slow"},
       {"convert a --flag=x", "--flag doesn't take a value | see prog convert --help"},
       {"convert a --number 1",
        "--number needs a whole number from 2 to 9, not \"1\" | pass --number 2 or more"},
       {"convert a --number 10",
        "--number needs a whole number from 2 to 9, not \"10\" | pass --number 9 or less"},
       {"convert a --number x",
        "--number needs a whole number from 2 to 9, not \"x\" | pass a number, such as --number 2"},
       {"convert a --list", "--list needs a value, X | see prog convert --help"},
       {"convert a b c", "\"c\" is one argument too many | usage: prog convert [OPTIONS] IN [OUT]"},
       {"convert a b c d",
        "\"c\" is one argument too many | usage: prog convert [OPTIONS] IN [OUT]"},
       {"convert a --list x --list y b", "no error"},
       {"fetch a b", "\"b\" is one argument too many | usage: prog fetch [OPTIONS] MODEL"},
       {"fetch a b.json",
        "\"b.json\" is one argument too many | for only some files, pass --include b.json"},
       {"fetch a b*", "\"b*\" is one argument too many | for only some files, pass --include 'b*'"},
       {"convert a b c.json",
        "\"c.json\" is one argument too many | usage: prog convert [OPTIONS] IN [OUT]"},
       {"shell zsh", "KIND can't be \"zsh\" | did you mean bash or fish?"},
       {"convert a --mode=", "--mode needs a value, MODE | see prog convert --help"},
       {"convert a --list=", "--list needs a value, X | see prog convert --help"},
       {"convert a --prefix=", "--prefix needs a value, TEXT | see prog convert --help"},
       {"convert \xe2\x80\x93mode fast a b c",
        "\"\xe2\x80\x93mode\" begins with a dash | options begin with two hyphens, as in --help"},
       {"convert a \xe2\x80\x94mode fast",
        "\"\xe2\x80\x94mode\" begins with a dash | options begin with two hyphens, as in --help"}});
}

// An unset variable of a shell leaves an empty word.
TEST(UsageError, AnEmptyValueIsNamed) {
  expect_errors({{"convert  b", "IN is empty | see prog convert --help"},
                 {"convert a ", "OUT is empty | see prog convert --help"},
                 {"convert a --list ", "--list is empty | see prog convert --help"},
                 {"convert a --list x --list ", "--list is empty | see prog convert --help"},
                 {"convert a --mode ", "--mode can't be \"\" | pass one of fast, slow"},
                 {"convert a --prefix ", "no error"}});
}

}  // namespace
}  // namespace hfshard
