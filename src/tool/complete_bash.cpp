#include <map>

#include <fmt/format.h>

#include "base/text.h"
#include "tool/completions.h"

namespace hfshard {
namespace {

// Splits the line itself, because bash also splits words at = and :, which values contain.
constexpr std::string_view kBashHead =
    R"sh(# bash completion for hfshard, made by `hfshard completions bash`.

_hfshard() {
  local line=${COMP_LINE:0:COMP_POINT} words=()
  read -a words <<<"$line"
  if [[ $line == *[[:space:]] ]]; then words+=(''); fi
  local count=${#words[@]} current=${words[-1]} at=1 command=''
  if ((count > 2)) && [[ ${words[1]} == help ]]; then at=2; fi
)sh";

constexpr std::string_view kBashScan = R"sh(
  # Find the option whose value this is, or the number of the argument.
  local option='' argument=0 i
  for ((i = at; i < count - 1; i++)); do
    if [[ -n $option ]]; then
      option=''
    elif [[ " $valued " == *" ${words[i]} "* ]]; then
      option=${words[i]}
    elif [[ ${words[i]} != -* ]]; then
      ((argument += 1))
    fi
  done
  local typed=$current lead='' kind=''
  if [[ -z $option && $current == --*=* ]]; then
    option=${current%%=*}
    typed=${current#*=}
    lead=$option=
  fi
  if [[ -n $option ]]; then
    case "$command $option" in
)sh";

constexpr std::string_view kBashTail = R"sh(    esac
  elif [[ $current == -* ]]; then
    kind="words $options"
  elif [[ -n $commands ]]; then
    kind="words $commands"
  else
    kind=${arguments[argument]:-}
  fi

  COMPREPLY=()
  case $kind in
    file) compopt -o filenames 2>/dev/null || :; mapfile -t COMPREPLY < <(compgen -f -- "$typed") ;;
    directory) compopt -o filenames 2>/dev/null || :; mapfile -t COMPREPLY < <(compgen -d -- "$typed") ;;
    list\ * | sizes\ *)
      lead+=${typed%"${typed##*,}"}
      if [[ $kind == sizes* ]]; then compopt -o nospace 2>/dev/null || :; fi
      mapfile -t COMPREPLY < <(compgen -W "${kind#* }" -- "${typed##*,}") ;;
    words\ *) mapfile -t COMPREPLY < <(compgen -W "${kind#* }" -- "$typed") ;;
  esac
  # bash replaces only the text after the last = or :.
  local breaks=${COMP_WORDBREAKS//[^=:]/} kept=''
  if [[ -n $breaks && $current == *[$breaks]* ]]; then kept=${current%"${current##*[$breaks]}"}; fi
  for i in "${!COMPREPLY[@]}"; do
    COMPREPLY[i]=$lead${COMPREPLY[i]}
    COMPREPLY[i]=${COMPREPLY[i]#"$kept"}
  done
}

complete -F _hfshard hfshard
)sh";

// `file`, `directory`, `words a b`; `list a b` and `sizes a= b=` are separated by commas.
std::string bash_kind(const Offered& offered, bool sizes) {
  if (offered.kind == Offer::directory) return "directory";
  if (offered.kind != Offer::nothing) return "file";
  if (offered.words.empty()) return {};
  if (sizes) return "sizes " + join(offered.words, "= ") + "=";
  return (offered.list ? "list " : "words ") + join(offered.words, " ");
}

// Returns the case of one command.
std::string bash_case(const std::string& path, const Command& command, bool program) {
  std::vector<std::string> names;
  std::vector<std::string> valued;
  for (const Option& option : command.options) {
    for (const std::string& name : {option.letter, option.name}) {
      if (name.empty()) continue;
      names.push_back(name);
      if (!option.value.empty()) valued.push_back(name);
    }
  }
  std::string out = fmt::format("    '{}')\n      options='{}'\n", path, join(names, " "));
  if (!valued.empty()) out += fmt::format("      valued='{}'\n", join(valued, " "));
  std::vector<std::string> parts;
  for (const Command& child : command.commands) parts.push_back(child.name);
  if (program) parts.emplace_back("help");
  if (!command.commands.empty()) out += fmt::format("      commands='{}'\n", join(parts, " "));
  parts.clear();
  for (const Positional& positional : command.positionals)
    parts.push_back("'" + bash_kind(offered(positional), false) + "'");
  if (!parts.empty()) out += fmt::format("      arguments=({})\n", join(parts, " "));
  return out + "      ;;\n";
}

}  // namespace

std::string bash_completions(const Command& program) {
  std::vector<std::string> known;
  std::string cases = bash_case("", program, true);
  std::map<std::string, std::vector<std::string>> kinds;  // -> "command option"
  for (const auto& [words, command] : all_commands(program)) {
    const std::string path = join(words, ".");
    known.push_back(path);
    cases += bash_case(path, *command, false);
    for (const Option& option : command->options) {
      const std::string kind = bash_kind(offered(option), option.offer == Offer::axes);
      if (kind.empty()) continue;
      kinds[kind].push_back(fmt::format("'{} {}'", path, option.name));
      if (!option.letter.empty())
        kinds[kind].push_back(fmt::format("'{} {}'", path, option.letter));
    }
  }
  std::string values;
  for (const auto& [kind, places] : kinds)
    values += fmt::format("      {})\n        kind='{}' ;;\n", join(places, " | "), kind);
  return fmt::format(
      "{}  local known=' {} '\n"
      "  while ((at < count - 1)) && [[ $known == *\" ${{command:+$command.}}${{words[at]}} \"* "
      "]]; do\n"
      "    command+=${{command:+.}}${{words[at]}}\n    ((at += 1))\n  done\n"
      "  local options='' valued='' commands='' arguments=()\n  case $command in\n{}  esac\n{}{}{}",
      kBashHead, join(known, " "), cases, kBashScan, values, kBashTail);
}

}  // namespace hfshard
