#include <fmt/format.h>

#include "base/text.h"
#include "tool/completions.h"
#include "tool/help.h"

namespace hfshard {
namespace {

// Escapes a text within '...' and within [...] or between colons of a specification.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

// Returns the action of a value: `_files`, `(a b)`, or a command that completes it.
std::string zsh_action(const Offered& offered, bool sizes) {
  if (offered.kind == Offer::directory) return "_files -/";
  if (offered.kind != Offer::nothing) return "_files";
  if (offered.words.empty()) return " ";
  if (sizes) return "_values -s , axis " + join(offered.words, "\\:size\\: ") + "\\:size\\:";
  if (offered.list) return "_values -s , part " + join(offered.words, " ");
  return "(" + join(offered.words, " ") + ")";
}

std::string zsh_specification(const Option& option) {
  const bool repeats = std::holds_alternative<std::vector<std::string>*>(option.to);
  const bool ends = std::holds_alternative<std::monostate>(option.to);
  const bool valued = !option.value.empty();
  std::string names = option.name + (valued ? "=" : "");
  std::string out = "'";
  if (option.letter.empty()) {
    out = fmt::format("'{}{}", repeats ? "*" : "", names);
  } else {
    const std::string apart = ends      ? "- *"
                              : repeats ? ""
                                        : fmt::format("{} {}", option.letter, option.name);
    out = fmt::format("{}{{{}{},{}}}'", apart.empty() ? "'*'" : "'(" + apart + ")'", option.letter,
                      valued ? "+" : "", names);
  }
  out += fmt::format("[{}]", zsh_escaped(option.help));
  if (valued) {
    out += fmt::format(":{}:{}", zsh_escaped(option.value),
                       zsh_action(offered(option), option.offer == Offer::axes));
  }
  return out + "'";
}

std::string zsh_function(const std::vector<std::string>& words) {
  return words.empty() ? "_hfshard" : "_hfshard_" + join(words, "_");
}

// Returns the function of a command.
std::string zsh_leaf(const std::vector<std::string>& words, const Command& command) {
  std::string out = fmt::format("{}() {{\n  _arguments -s -S", zsh_function(words));
  for (const Option& option : command.options) out += " \\\n    " + zsh_specification(option);
  std::size_t place = 0;
  for (const Positional& positional : command.positionals) {
    out += fmt::format(" \\\n    '{}{}:{}:{}'", ++place, positional.required ? "" : ":",
                       zsh_escaped(positional.name), zsh_action(offered(positional), false));
  }
  return out + "\n}\n\n";
}

// Returns the function of a group, or of the program, which also has `help`.
std::string zsh_group(const std::vector<std::string>& words, const Command& command) {
  const std::string name = zsh_function(words);
  std::string out = fmt::format(
      "{}() {{\n  local context state state_descr line\n  typeset -A opt_args\n"
      "  local -a commands\n  commands=(\n",
      name);
  for (const Command& child : command.commands)
    out += fmt::format("    '{}:{}'\n", child.name, zsh_escaped(child.summary));
  if (words.empty()) out += "    'help:print the help of a command'\n";
  out += "  )\n  _arguments -C";
  for (const Option& option : command.options) out += " \\\n    " + zsh_specification(option);
  out += fmt::format(
      " \\\n    '1: :->commands' \\\n    '*:: :->arguments'\n  case $state in\n"
      "    commands) _describe -t commands command commands ;;\n    arguments)\n"
      "      case $words[1] in\n");
  for (const Command& child : command.commands) {
    std::vector<std::string> below = words;
    below.push_back(child.name);
    out += fmt::format("        {}) {} ;;\n", child.name, zsh_function(below));
  }
  if (words.empty()) out += "        help) _hfshard ;;\n";
  return out + "      esac ;;\n  esac\n}\n\n";
}

}  // namespace

std::string zsh_completions(const Command& program) {
  std::string out =
      "#compdef hfshard\n# zsh completion for hfshard, made by `hfshard completions zsh`.\n\n";
  for (const auto& [words, command] : all_commands(program))
    out += command->commands.empty() ? zsh_leaf(words, *command) : zsh_group(words, *command);
  // zsh runs the file as a function when it loads it by name; sourcing the file defines the
  // function.
  return out + zsh_group({}, program) +
         "if [ \"$funcstack[1]\" = _hfshard ]; then\n  _hfshard \"$@\"\nelse\n"
         "  compdef _hfshard hfshard\nfi\n";
}

}  // namespace hfshard
