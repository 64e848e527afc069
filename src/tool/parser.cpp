#include "tool/parser.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "tool/help.h"
#include "tool/values.h"

namespace hfshard {
namespace {

// Each throws usage, which passes through CLI11 unchanged.
CLI::Validator check_of(const Option& option) {
  const auto check = [option](const std::string& text) {
    if (!option.choices.empty()) {
      one_of(text, option.choices, option.name);
    } else {
      check_whole(text, option.name, option.least, option.most);
    }
    return std::string();
  };
  return {check, ""};
}

template <class Value>
constexpr bool kIsNumber =
    std::is_same_v<Value, std::uint64_t> || std::is_same_v<Value, unsigned> ||
    std::is_same_v<Value, std::optional<std::uint64_t>>;

template <class Value>
void add_option(CLI::App& app, const Option& option, const std::string& names, Value& to) {
  if constexpr (std::is_same_v<Value, bool>) {
    app.add_flag(names, to, option.help);
  } else {
    CLI::Option* added = app.add_option(names, to, option.help)->type_name(option.value);
    // Takes one value each time. Otherwise CLI11 would also take the positional arguments after it.
    if (std::is_same_v<Value, std::vector<std::string>>) added->allow_extra_args(false);
    if (kIsNumber<Value> || (!option.choices.empty() && !option.open))
      added->check(check_of(option));
  }
}

void add_options(CLI::App& app, const Command& command) {
  app.set_help_flag();
  for (const Option& option : command.options) {
    const std::string names = (option.letter.empty() ? "" : option.letter + ",") + option.name;
    if (option.name == "--help") {
      app.set_help_flag(names, option.help);
    } else if (option.name == "--version") {
      app.set_version_flag(names, std::string());
    } else {
      std::visit(
          [&](auto to) {
            if constexpr (!std::is_same_v<decltype(to), std::monostate>)
              add_option(app, option, names, *to);
          },
          option.to);
    }
  }
}

void add_command(CLI::App& app, const Command& command) {
  for (const Positional& positional : command.positionals) {
    CLI::Option* added = app.add_option(positional.name, *positional.to, positional.help)
                             ->required(positional.required);
    if (!positional.choices.empty())
      added->check(check_of({.name = positional.name, .choices = positional.choices}));
  }
  add_options(app, command);
  for (const Command& child : command.commands)
    add_command(*app.add_subcommand(child.name, child.summary), child);
  if (!command.commands.empty()) app.require_subcommand(1);
}

// Returns the names that begin with the word, or else similar names. Words shorter than `least`
// would be similar to every name.
std::vector<std::string> meant_by(const std::string& word, const std::vector<std::string>& names,
                                  std::size_t least) {
  if (word.size() < least) return {};
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (name.starts_with(lower_case(word))) out.push_back(name);
  }
  return out.empty() ? near_names(word, names) : out;
}

bool takes_option(const Command& command, const std::string& name) {
  return std::ranges::find(command.options, name, &Option::name) != command.options.end();
}

// Returns the other commands that have an option.
std::vector<std::string> commands_with(const Command& program, const std::string& option) {
  std::vector<std::string> out;
  for (const Command& command : program.commands) {
    if (takes_option(command, option)) out.push_back(command.name);
  }
  return out;
}

Error unknown_option(const Command& program, const Parsed& parsed, const std::string& typed) {
  Error out(ErrorCode::usage, fmt::format("{} has no option {}", parsed.path, quote(typed)));
  for (const Command& child : parsed.command->commands) {
    if (typed != "--" + child.name && typed != "-" + child.name) continue;
    return out.hint(fmt::format("{} is a command: {} {}", child.name, parsed.path, child.name));
  }
  // Options that name the output in other programs.
  const bool is_out = typed == "-o" || typed == "--out" || typed.starts_with("--output");
  if (is_out && std::ranges::find(parsed.command->positionals, "OUT", &Positional::name) !=
                    parsed.command->positionals.end()) {
    return out.hint("OUT is written without an option: " +
                    usage_line(*parsed.command, parsed.path));
  }
  const std::string help = fmt::format("see {} --help", parsed.path);
  if (const auto others = commands_with(program, typed); !others.empty())
    return out.hint(fmt::format("{} is an option of {}; {}", typed, join(others, ", "), help));
  std::vector<std::string> names;
  for (const Option& option : parsed.command->options) names.push_back(option.name);
  const std::vector<std::string> near = meant_by(typed, names, 0);
  if (!near.empty()) return out.hint(fmt::format("did you mean {}? {}", join(near, " or "), help));
  if (typed.size() == 2 || typed.starts_with("--")) return out.hint(help);
  return out.hint(
      fmt::format("for a path with this name, pass {}; {}", shell_word("./" + typed), help));
}

// Goes from a group to one of its commands.
void enter(const Command& child, Parsed& at) {
  at.command = &child;
  at.path += " " + child.name;
}

// Refuses an option that stands before the command or before the group's command.
void check_order(const Command& program, Parsed at, const std::vector<std::string>& words) {
  const std::string typed = words[0].substr(0, words[0].find('='));
  const auto has = [&](const Command& command) {
    return std::ranges::any_of(command.options, [&](const Option& option) {
      return option.name == typed || option.letter == typed;
    });
  };
  if (has(*at.command)) return;
  std::optional<Parsed> first;
  for (const std::string& word : words) {
    const auto child = std::ranges::find(at.command->commands, word, &Command::name);
    if (child == at.command->commands.end()) continue;
    Parsed below = at;
    enter(*child, below);
    if (has(*child)) {
      throw Error(ErrorCode::usage, fmt::format("{} must follow its command", typed))
          .hint(fmt::format("write {} ... {}", below.path, typed));
    }
    if (!child->commands.empty()) at = below;
    if (!first || !first->command->commands.empty()) first = std::move(below);
  }
  if (first) throw unknown_option(program, *first, typed);
}

// CLI11 says only that a command is missing; this names the wrong word.
void check_command(const Command& program, const Parsed& group,
                   const std::vector<std::string>& words, std::size_t at) {
  const Command& command = *group.command;
  if (command.commands.empty()) return;
  std::vector<std::string> names;
  for (const Command& child : command.commands) names.push_back(child.name);
  if (at == words.size() && at > 0) {
    throw Error(ErrorCode::usage, fmt::format("{} needs one of its commands", words[at - 1]))
        .hint("its commands are " + join(names, ", "));
  }
  if (at >= words.size()) return;
  if (words[at].starts_with("-")) {
    check_order(program, group, {words.begin() + static_cast<std::ptrdiff_t>(at), words.end()});
    return;
  }
  const auto found = std::ranges::find(command.commands, words[at], &Command::name);
  if (found != command.commands.end()) {
    Parsed child = group;
    enter(*found, child);
    check_command(program, child, words, at + 1);
    return;
  }
  constexpr std::size_t kLeast = 4;
  std::vector<std::string> near = meant_by(words[at], names, kLeast);
  if (words[at] == "version" || words[at] == "help") near = {"--" + words[at]};
  throw Error(ErrorCode::usage, fmt::format("hfshard has no command {}", quote(words[at])))
      .hint(near.empty() ? "the commands are " + join(names, ", ")
                         : "did you mean " + join(near, " or ") + "?");
}

// Translates CLI11's messages: `--step: 1 required N missing` at the end of the line, `--to: At
// Most 1 required but received 2`, `Could not convert: --quiet = x`.
std::string reworded(const CLI::ParseError& error) {
  constexpr std::string_view kBetween = ": 1 required ";
  constexpr std::string_view kEnd = " missing";
  constexpr std::string_view kAtMost = ": At Most 1 required but received ";
  constexpr std::string_view kFlag = "Could not convert: ";
  std::string said = error.what();
  if (const std::size_t at = said.find(kAtMost); at != std::string::npos)
    return fmt::format("{} is given {} times", said.substr(0, at),
                       said.substr(at + kAtMost.size()));
  if (said.starts_with(kFlag) && said.find(" = ") != std::string::npos)
    return fmt::format("{} doesn't take a value",
                       said.substr(kFlag.size(), said.find(" = ") - kFlag.size()));
  const std::size_t at = said.find(kBetween);
  if (at == std::string::npos || !said.ends_with(kEnd)) return said;
  const std::size_t value = at + kBetween.size();
  return fmt::format("{} needs a value, {}", said.substr(0, at),
                     said.substr(value, said.size() - kEnd.size() - value));
}

// The en dash and em dash that word processors put in place of hyphens.
bool is_dashed(std::string_view word) {
  return word.starts_with("\xe2\x80\x93") || word.starts_with("\xe2\x80\x94");
}

// Returns the error for a positional argument too many.
Error extra_word(const Parsed& parsed, const std::string& word) {
  const bool selects = takes_option(*parsed.command, "--include");
  const bool is_file = word.find('.') != std::string::npos || word.find('*') != std::string::npos;
  Error out(ErrorCode::usage, fmt::format("{} is one argument too many", quote(word)));
  if (parsed.command->name == "fetch" && selects && is_file)
    return out.hint(fmt::format("for only some files, pass --include {}", shell_word(word)));
  return out.hint("usage: " + usage_line(*parsed.command, parsed.path));
}

// CLI11 reports wrong flags in this way.
Error usage_error(const CLI::App& app, const Command& program, const Parsed& parsed,
                  const std::vector<std::string>& words, const CLI::ParseError& error) {
  const std::vector<std::string> left = app.remaining(true);
  const auto end = std::ranges::find(left, "--");  // no options follow it
  const auto option = std::find_if(left.begin(), end, [](const std::string& word) {
    return word.size() > 1 && word.starts_with("-");
  });
  if (option != end) return unknown_option(program, parsed, option->substr(0, option->find('=')));
  const auto dashed = std::ranges::find_if(words, is_dashed);
  if (dashed != words.end()) {
    return Error(ErrorCode::usage, fmt::format("{} begins with a dash", quote(*dashed)))
        .hint("options begin with two hyphens, as in --help");
  }
  const auto extra = std::ranges::find_if(left, [](const auto& word) { return word != "--"; });
  if (extra != left.end()) return extra_word(parsed, *extra);
  return Error(ErrorCode::usage, printable(reworded(error)))
      .hint(fmt::format("see {} --help", parsed.path));
}

// An unset shell variable leaves an empty value.
std::optional<Error> find_empty(const Parsed& parsed) {
  for (const auto& [name, values] : parsed.given) {
    if (name == "--prefix" || std::ranges::find(values, std::string()) == values.end()) continue;
    return Error(ErrorCode::usage, fmt::format("{} is empty", name))
        .hint(fmt::format("see {} --help", parsed.path));
  }
  return std::nullopt;
}

// Returns CLI11's object of the last command.
const CLI::App& find_chosen(const CLI::App& app, Parsed& parsed) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    enter(*std::ranges::find(parsed.command->commands, at->get_name(), &Command::name), parsed);
  }
  return *at;
}

}  // namespace

Parsed parse(const Command& program, const std::vector<std::string>& words) {
  CLI::App app(program.summary, program.name);
  add_command(app, program);
  Parsed out;
  out.command = &program;
  out.path = program.name;
  try {
    check_command(program, out, words, 0);
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);  // CLI11 takes them from the back
    for (const CLI::Option* option : find_chosen(app, out).get_options()) {
      if (option->count() > 0) out.given[option->get_name()] = option->results();
    }
    out.error = find_empty(out);
  } catch (const CLI::CallForHelp&) {
    out.ask = Parsed::Ask::help;
    find_chosen(app, out);
  } catch (const CLI::CallForVersion&) {
    out.ask = Parsed::Ask::version;
  } catch (const Error& error) {
    find_chosen(app, out);
    out.error = error;
  } catch (const CLI::ParseError& error) {
    const CLI::App& chosen = find_chosen(app, out);
    out.error = usage_error(chosen, program, out, words, error);
  }
  return out;
}

}  // namespace hfshard
