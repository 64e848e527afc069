#include "tool/man.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/text.h"
#include "base/version.h"
#include "tool/completions.h"
#include "tool/help.h"

#include "hfshard/error.h"

namespace hfshard {
namespace {

// Source: groff_char(7): a plain - is a hyphen, which can't be pasted; \e is a backslash.
std::string troff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Escapes prose, so that no line is a request.
std::string prose(std::string_view text) {
  constexpr std::size_t kColumns = 72;  // escapes lengthen lines
  std::vector<std::string> lines;
  for (const std::string& line : wrapped(text, kColumns)) {
    const std::string out = troff(line);
    lines.push_back(out.starts_with(".") || out.starts_with("'") ? "\\&" + out : out);
  }
  return join(lines, "\n");
}

std::string section(std::string_view name) { return fmt::format(".SH {}\n", name); }

std::string entry(const std::string& head, std::string_view help) {
  return fmt::format(".TP\n{}\n{}\n", head, prose(help));
}

std::string troff_head(const Option& option) {
  std::string out = "\\fB" + troff(option.name) + "\\fR";
  if (!option.letter.empty()) out = fmt::format("\\fB{}\\fR, {}", troff(option.letter), out);
  return option.value.empty() ? out : fmt::format("{} \\fI{}\\fR", out, troff(option.value));
}

// README.md lists each status with its error codes.
std::string statuses(const Command& command) {
  struct Status {
    int number;
    std::string_view when;
  };
  const Status all[] = {
      {0, "done"},
      {exit_status(ErrorCode::usage), "the command line is wrong"},
      {exit_status(ErrorCode::bad_input),
       "something must change first: bad, damaged or missing input, an existing output, too little "
       "memory or disk, a gated repository or a bad token; mappings check: it found problems"},
      {exit_status(ErrorCode::io), "the system failed; a retry may help"},
      {5, "verify or diff found differences"},
      {exit_status(ErrorCode::internal), "a bug in hfshard"},
      {exit_status(ErrorCode::cancelled), "interrupted"}};
  std::string out = section("EXIT STATUS");
  for (const Status& status : all) {
    const bool finds = command.name == "verify" || command.name == "diff";
    if (status.number == 5 && command.commands.empty() && !finds) continue;
    out += entry(fmt::format("\\fB{}\\fR", status.number), status.when);
  }
  return out;
}

std::string page_name(const std::vector<std::string>& words) {
  return words.empty() ? "hfshard" : "hfshard-" + join(words, "-");
}

std::string references(const Command& program, const std::vector<std::string>& words) {
  std::vector<std::string> names;
  for (const auto& [path, command] : all_commands(program)) {
    const bool child =
        path.size() == words.size() + 1 && std::equal(words.begin(), words.end(), path.begin());
    if (child) names.push_back(page_name(path));
  }
  if (!words.empty()) names.insert(names.begin(), page_name({words.begin(), words.end() - 1}));
  std::string out;
  for (const std::string& name : names) {
    out += fmt::format(".BR {} (1){}\n", troff(name), name == names.back() ? "" : ",");
  }
  return out.empty() ? out : section("SEE ALSO") + out;
}

std::string options_section(const Command& command) {
  std::string out;
  for (const auto& [group, options] : grouped(command.options)) {
    out += fmt::format(".SS {}\n", to_string(group));
    for (const Option* option : options) out += entry(troff_head(*option), option_help(*option));
  }
  return out.empty() ? out : section("OPTIONS") + out;
}

std::string examples_section(const Command& command) {
  std::string out;
  for (const Example& example : command.examples) {
    if (!example.what.empty())
      out += (out.empty() ? "" : ".PP\n") + prose(example.what + ":") + "\n";
    out += fmt::format(".PP\n.RS 4\n.EX\n{}\n.EE\n.RE\n", troff(example.line));
  }
  return out.empty() ? out : section("EXAMPLES") + out;
}

// Returns `The same tree.` for `the same tree`.
std::string sentence(std::string text) {
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 32);
  return text + ".";
}

const Command& command_at(const Command& program, const std::vector<std::string>& words) {
  const Command* at = &program;
  for (const std::string& word : words) {
    const auto found = std::ranges::find(at->commands, word, &Command::name);
    if (found == at->commands.end()) {
      std::vector<std::string> names;
      for (const Command& command : at->commands) names.push_back(command.name);
      const std::vector<std::string> near = near_names(word, names);
      throw Error(ErrorCode::usage, fmt::format("hfshard has no command {}", quote(word)))
          .hint(near.empty() ? "see hfshard --help" : "did you mean " + join(near, " or ") + "?");
    }
    at = &*found;
  }
  return *at;
}

}  // namespace

ManualPage manual_page(const Command& program, const std::vector<std::string>& words) {
  const Command& command = command_at(program, words);
  const std::string name = page_name(words);
  std::string upper = name;
  std::ranges::transform(upper, upper.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  std::string path = program.name;
  for (const std::string& word : words) path += " " + word;
  std::string out = fmt::format(".TH {} 1 {} \"hfshard {}\" \"User Commands\"\n", troff(upper),
                                kVersionDate, kVersion);
  out += fmt::format("{}{} \\- {}\n", section("NAME"), troff(name), prose(command.summary));
  out += fmt::format("{}\\fB{}\\fR{}\n", section("SYNOPSIS"), troff(path),
                     troff(usage_line(command, "")));
  out += section("DESCRIPTION") + prose(sentence(command.summary)) + "\n";
  for (const std::string& paragraph : command.description) out += ".PP\n" + prose(paragraph) + "\n";
  if (!command.positionals.empty()) out += section("ARGUMENTS");
  for (const Positional& positional : command.positionals)
    out += entry("\\fI" + troff(positional.name) + "\\fR", positional_help(positional));
  if (!command.commands.empty()) out += section("COMMANDS");
  for (const Command& child : command.commands)
    out += entry("\\fB" + troff(child.name) + "\\fR", child.summary);
  out += options_section(command) + examples_section(command) + statuses(command);
  out +=
      section("ENVIRONMENT") +
      entry("\\fBHFSHARD_MAPPINGS\\fR",
            "directory of mapping files, used like those of --mapping") +
      entry(
          "\\fBTMPDIR\\fR",
          "directory for unpacked arrays that don't fit into memory, if the command has no output; "
          "/var/tmp by default");
  out += references(program, words);
  return {name, out};
}

std::vector<ManualPage> manual_pages(const Command& program) {
  std::vector<ManualPage> out{manual_page(program, {})};
  for (const auto& [words, command] : all_commands(program))
    out.push_back(manual_page(program, words));
  return out;
}

}  // namespace hfshard
