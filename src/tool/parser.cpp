#include "tool/parser.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/text.h"
#include "tool/values.h"

namespace hfshard {
namespace {

// Each throws usage, which passes through CLI11 as it is.
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
    // One value each time; without this CLI11 takes the positional arguments after it too.
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

// An option that a command has, before that command.
void check_order(const Command& program, const std::vector<std::string>& words) {
  if (words.empty() || !words[0].starts_with("-")) return;
  const std::string typed = words[0].substr(0, words[0].find('='));
  const auto has = [&](const Command& command) {
    return std::ranges::any_of(command.options, [&](const Option& option) {
      return option.name == typed || option.letter == typed;
    });
  };
  if (has(program)) return;
  for (const std::string& word : words) {
    const auto command = std::ranges::find(program.commands, word, &Command::name);
    if (command == program.commands.end() || !has(*command)) continue;
    throw Error(ErrorCode::usage, fmt::format("{} stands before its command", typed))
        .hint(fmt::format("write {} {} ... {}", program.name, word, typed));
  }
}

// CLI11 says only that a command is missing; this says which word is none.
void check_command(const Command& command, const std::vector<std::string>& words, std::size_t at) {
  if (command.commands.empty()) return;
  if (at == words.size() && at > 0) {
    std::vector<std::string> names;
    for (const Command& child : command.commands) names.push_back(child.name);
    throw Error(ErrorCode::usage, fmt::format("{} wants one of its commands", words[at - 1]))
        .hint("they are " + join(names, ", "));
  }
  if (at == 0) check_order(command, words);
  if (at >= words.size() || words[at].starts_with("-")) return;
  const auto found = std::ranges::find(command.commands, words[at], &Command::name);
  if (found != command.commands.end()) {
    check_command(*found, words, at + 1);
    return;
  }
  std::vector<std::string> names;
  for (const Command& child : command.commands) names.push_back(child.name);
  // Of a short word every other one is near.
  constexpr std::size_t kShort = 3;
  std::vector<std::string> near;
  if (words[at].size() > kShort) near = near_names(words[at], names);
  if (words[at] == "version") near = {"--version"};
  throw Error(ErrorCode::usage, fmt::format("there is no command {}", quote(words[at])))
      .hint(near.empty() ? "commands are " + join(names, ", ")
                         : "did you mean " + join(near, " or ") + "?");
}

// What CLI11 says of an option that ends the line: `--step: 1 required N missing`.
std::string without_value(const CLI::ParseError& error) {
  constexpr std::string_view kBetween = ": 1 required ";
  constexpr std::string_view kEnd = " missing";
  std::string said = error.what();
  const std::size_t at = said.find(kBetween);
  if (at == std::string::npos || !said.ends_with(kEnd)) return said;
  const std::size_t value = at + kBetween.size();
  return fmt::format("{} wants a value, {}", said.substr(0, at),
                     said.substr(value, said.size() - kEnd.size() - value));
}

// CLI11 reports wrong flags this way.
Error usage_error(const CLI::App& app, const Parsed& parsed, const CLI::ParseError& error) {
  const std::string help = fmt::format("see {} --help", parsed.path);
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("-")) continue;
    std::vector<std::string> names;
    for (const Option& option : parsed.command->options) names.push_back(option.name);
    const std::string typed = word.substr(0, word.find('='));
    for (const Command& child : parsed.command->commands) {
      if (typed != "--" + child.name && typed != "-" + child.name) continue;
      return Error(ErrorCode::usage, fmt::format("{} has no option {}", parsed.path, quote(typed)))
          .hint(fmt::format("{} is a command: {} {}", child.name, parsed.path, child.name));
    }
    const std::vector<std::string> near = near_names(typed, names);
    return Error(ErrorCode::usage, fmt::format("{} has no option {}", parsed.path, quote(typed)))
        .hint(near.empty() ? help : fmt::format("did you mean {}? {}", join(near, " or "), help));
  }
  return Error(ErrorCode::usage, printable(without_value(error))).hint(help);
}

// The command that was read last; returns CLI11's.
const CLI::App& find_chosen(const CLI::App& app, Parsed& parsed) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    parsed.path += " " + at->get_name();
    parsed.command = &*std::ranges::find(parsed.command->commands, at->get_name(), &Command::name);
  }
  return *at;
}

}  // namespace

Parsed parse(const Command& program, std::vector<std::string> words) {
  CLI::App app(program.summary, program.name);
  add_command(app, program);
  Parsed out;
  out.command = &program;
  out.path = program.name;
  try {
    check_command(program, words, 0);
    std::ranges::reverse(words);  // CLI11 takes them from the back
    app.parse(words);
    for (const CLI::Option* option : find_chosen(app, out).get_options()) {
      if (option->count() > 0) out.given[option->get_name()] = option->results();
    }
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
    out.error = usage_error(chosen, out, error);
  }
  return out;
}

}  // namespace hfshard
