#include <fmt/format.h>

#include "base/text.h"
#include "tool/completions.h"

namespace hfshard {
namespace {

constexpr std::string_view kFishHead =
    R"sh(# fish completion for hfshard, made by `hfshard completions fish`.

# Succeeds if the command line begins with these words; `help` may stand before them.
function __hfshard_in
    set -l words (commandline -opc)
    set -e words[1]
    test "$words[1]" = help; and set -e words[1]
    set -l end (count $argv)
    test (count $words) -ge $end; and test "$words[1..$end]" = "$argv"
end

# Succeeds if the command line is these words and nothing else.
function __hfshard_at
    set -l words (commandline -opc)
    set -e words[1]
    test "$words[1]" = help; and set -e words[1]
    test "$words" = "$argv"
end

# Prints words that continue a list with commas.
function __hfshard_list
    set -l before (commandline -ct | string replace -r '^--[a-z-]+=' '' | string replace -r '[^,]*$' '')
    for word in $argv
        echo "$before$word"
    end
end

complete -c hfshard -f
)sh";

// Escapes a text within '...'.
std::string fish_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// Returns the flags for a value: ` -r -F` for files, ` -x -a '...'` for words, ` -x` for any text.
std::string fish_value(const Offered& offered, bool sizes) {
  if (offered.kind == Offer::directory) return " -x -a '(__fish_complete_directories)'";
  if (offered.kind != Offer::nothing) return " -r -F";
  if (offered.words.empty()) return " -x";
  if (!sizes && !offered.list) return " -x -a " + fish_quoted(join(offered.words, " "));
  const std::string words = sizes ? join(offered.words, "= ") + "=" : join(offered.words, " ");
  return fmt::format(" -x -a '(__hfshard_list {})'", words);
}

std::string fish_option(const std::string& where, const Option& option) {
  std::string out = fmt::format("complete -c hfshard -n '{}' -l {}", where, option.name.substr(2));
  if (!option.letter.empty()) out += " -s " + option.letter.substr(1);
  if (!option.value.empty()) out += fish_value(offered(option), option.offer == Offer::axes);
  return out + " -d " + fish_quoted(option.help) + "\n";
}

std::string fish_lines(const std::vector<std::string>& words, const Command& command) {
  const std::string path = words.empty() ? "" : " " + join(words, " ");
  const std::string at = "__hfshard_at" + path;
  const std::string in = command.commands.empty() ? "__hfshard_in" + path : at;
  std::string out = "\n";
  for (const Command& child : command.commands) {
    out += fmt::format("complete -c hfshard -n '{}' -a {} -d {}\n", at, child.name,
                       fish_quoted(child.summary));
  }
  if (words.empty()) {
    out +=
        fmt::format("complete -c hfshard -n '{}' -a help -d 'print the help of a command'\n", at);
  }
  for (const Option& option : command.options) out += fish_option(in, option);
  for (const Positional& positional : command.positionals) {
    const Offered offer = offered(positional);
    if (offer.kind != Offer::nothing) {
      out += fmt::format("complete -c hfshard -n '{}' -F\n", in);
    } else if (!offer.words.empty()) {
      out += fmt::format("complete -c hfshard -n '{}' -a {}\n", at,
                         fish_quoted(join(offer.words, " ")));
    }
  }
  return out;
}

}  // namespace

std::string fish_completions(const Command& program) {
  std::string out = std::string(kFishHead) + fish_lines({}, program);
  for (const auto& [words, command] : all_commands(program)) out += fish_lines(words, *command);
  return out;
}

}  // namespace hfshard
